"""Custom resources: the configuration as an object of the cluster, and its status.

The only room that imports kopf, and only if ``--config-resource`` names an object. kopf reports the
changes of that one object. It gets event handlers only, so that it writes neither finalizers nor
annotations, and it watches no pods or nodes. reload decides what an object means and applies it;
this room writes the outcome into the object's status, in the replica that leads.

This room imports config, errors, kube and observe. It is imported by reload.
"""
