"""The edge towards the API server: the only room that sends requests over HTTP.

Here live credentials, one thin client, the reflectors that turn watches into facts, and whatever
writes to the API server: bindings, pod status, events, the lease. No decision is made here and
nothing is logged here: what happened is told to small observer protocols whose defaults stay
silent.

This room imports config, errors, framework, model and pem. It is imported by app, binding, checkup,
crds, explain, loop, out_of_tree, preemption, process, reload and reporting.
"""
