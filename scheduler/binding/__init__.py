"""The binding cycle: from an assumed pod to a bound one, or back.

Reserve, permit and pre-bind plugins are asked in the loop; what they want done, and the binding
itself, is done by one task for each pod. The task reports its result through the inbox. A pod that
waits for a permit or a condition is a waiting pod: it is asked again whenever facts were applied,
and a timer ends its wait. Preemption cancels bindings that are under way, and the loop begins them.

This room imports cache, config, errors, framework, kube, model, observe, out_of_tree, queue,
reporting and snapshot. It is imported by app, loop and preemption.
"""
