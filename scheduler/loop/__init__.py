"""Facts in, decisions carried out.

The control loop applies the inbox to cache and queue, takes the next pod, runs one scheduling cycle
and carries its decision out. It is the only writer of cache and queue, so there is no lock: tasks
report through the inbox. A pod is assumed first and its binding posted second, by a task of its
own.

This room imports binding, cache, cycle, framework, kube, model, observe, out_of_tree, preemption,
queue and reporting. It is imported by app, process and reload.
"""
