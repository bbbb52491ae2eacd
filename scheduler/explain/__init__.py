"""Explaining: what the scheduler would decide about a pod, and why, without doing it.

The state of a cluster, from files or from the API server, and one pod go in. The scheduling cycle
of the running scheduler decides, and every plugin judges every node. What they answered comes out
as a document whose schema is promised (docs/explain.md), or as a table for people. Nothing is
written to the API server: it completes a pod that does not exist yet by a dry run.

This room imports cache, config, cycle, errors, framework, kube, model, out_of_tree and plugins. It
is imported by cli.
"""
