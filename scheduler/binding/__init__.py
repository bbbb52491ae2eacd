"""The binding cycle: from an assumed pod to a bound one, or back.

Reserve and permit plugins run in the loop. Then one task for each pod runs the pre-bind plugins,
performs the effects that they return and posts the binding; it reports the result through the
inbox. A pod that waits for a permit or a condition is a waiting pod: it is checked again whenever
facts were applied, and a timer ends its wait. The loop begins bindings; preemption cancels those
of its victims.

This room imports cache, config, errors, framework, kube, model, observe, out_of_tree, queue,
reporting and snapshot. It is imported by app, loop and preemption.
"""
