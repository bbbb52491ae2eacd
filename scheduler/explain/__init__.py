"""Explaining: what would be decided about a pod, and why, without doing it.

A picture of a cluster, from files or from the API server, and one pod go in; the same cycle runs
that would place the pod; what everybody said comes out, as a document whose schema is promised
(docs/explain.md) or as a table for people. Nothing is written anywhere, except that the API server
is asked to complete a pod that does not exist yet, by a dry run.
"""
