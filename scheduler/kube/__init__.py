"""The edge towards the API server: the only room that sends requests over HTTP.

It has the credentials, one thin client, the reflectors that turn watches into facts, and whatever
writes to the API server: bindings, pod status, events, the lease. Extenders are called from here as
well, and kopf, which sends its own requests, gets its session from here. No pod is decided about
here and nothing is logged: small observer protocols receive what happens, and ignore it by default.

This room imports config, errors, framework, model and pem. It is imported by app, binding, checkup,
crds, explain, loop, out_of_tree, preemption, process, reload and reporting.
"""
