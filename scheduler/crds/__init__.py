"""Custom resources: the configuration as an object of the cluster, and its status.

The only room that imports kopf, and only once an object is named by ``--config-resource``. kopf
tells what happens to that one object; it is given event handlers alone, so that it writes neither
finalizers nor annotations, and it never sees pods or nodes. What an object means is decided in
reload, which offers it to the loop; here the outcome is written into the object's status, by the
replica that leads.

This room imports config, errors, kube and observe. It is imported by reload.
"""
