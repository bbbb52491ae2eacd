"""The scheduling queue: which pod next, and when.

A waiting pod is in one of four states: *active* (ready now), *backoff* (ready later),
*unschedulable* (until something changes that could help) and *gated* (a plugin keeps it out). A pod
that is being decided is *in flight*, and the changes since its pop are kept: if its attempt fails,
they are checked before it waits. ``queue_state`` has the table of moves between these states;
other rooms call ``SchedulingQueue`` alone. This room has no clock: every method that depends on
time has the parameter *now*, in monotonic seconds.

This room imports framework and model. It is imported by binding, loop, out_of_tree, preemption,
reload and reporting.
"""
