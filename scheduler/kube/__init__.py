"""The edge towards the API server: the only room that opens HTTP connections.

It has the credentials, one thin client, the reflectors that turn watches into facts, and whatever
writes to the API server: bindings, pod status, events, the lease. Extenders are called from here as
well, and kopf gets its session from here. (observe is an HTTP server.) No pod is decided about here
and nothing is logged: small observer protocols receive what happens, and ignore it by default. The
room may know model, errors, config and the framework's values; it must not know observe, loop or
app, which stand above it or beside it.
"""
