"""The binding cycle: from an assumed pod to a bound one, or back.

Reserve, permit and pre-bind plugins are asked in the loop; what they want done, and the binding
itself, is done by one task for each pod. The task reports its result through the inbox. A pod that
waits for a permit or a condition is a waiting pod: it is asked again whenever facts were applied,
and a timer ends its wait. This room knows reporting and all below it; preemption cancels bindings
that are under way, and loop begins them.
"""
