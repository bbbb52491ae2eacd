"""The edge towards the API server: the only room that speaks HTTP.

Here live credentials, one thin client, the reflectors that turn watches into facts, and whatever
writes to the API server: bindings, pod status, events, the lease. No decision is made here and
nothing is logged here: what happened is told to small observer protocols whose defaults stay
silent. The room may know model, errors and the framework's values; it must not know observe, loop
or app, which stand above it or beside it.
"""
