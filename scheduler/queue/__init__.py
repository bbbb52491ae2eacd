"""The scheduling queue: which pod next, and when.

Four places hold waiting pods: *active* (ready now), *backoff* (ready later), *unschedulable* (until
something changes that could help) and *gated* (not allowed in yet). A fifth, *in flight*, remembers
what changed while a pod was being decided, so that no event is missed. Which moves exist is a table
in ``place``; ``SchedulingQueue`` is the only door. No clock lives here: every method that depends
on time is told the time, in monotonic seconds.
"""
