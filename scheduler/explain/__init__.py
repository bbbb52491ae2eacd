"""Explains what the scheduler would decide about a pod, and why, without doing it.

It takes the state of a cluster, from files or from the API server, and one pod. The same scheduling
cycle as in the running scheduler decides, and every plugin judges every node. The result is a
document whose schema is stable (docs/explain.md), or a table for people. Nothing is written to the
API server: it completes a pod that does not exist yet by a dry run.

This room imports cache, config, cycle, errors, framework, kube, model, out_of_tree and plugins. It
is imported by cli.
"""
