"""The edge towards the API server: the only room that sends requests over HTTP.

It has the credentials, one thin client, the reflectors that turn watches into facts, and the code
that writes to the API server: bindings, pod status, events, the lease. It calls extenders as well,
and makes the session in which kopf sends its own requests. This room decides nothing about pods and
logs nothing: it reports to small observer protocols, whose methods do nothing by default.

This room imports config, errors, framework, model and pem. It is imported by app, binding, checkup,
crds, explain, loop, out_of_tree, preemption, process, reload and reporting.
"""
