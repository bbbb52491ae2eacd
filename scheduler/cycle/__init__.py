"""One pod and a view of the cluster go in, a decision comes out.

The cycle is a plain generator: it may pause, so that the event loop can serve sockets, and its
return value is the decision. It reads no clock, logs nothing and keeps no state: the same pod, view
and seed give the same decision. It receives a profile and never names a plugin.

This room imports config, errors, framework, model and snapshot. It is imported by explain and loop.
"""
