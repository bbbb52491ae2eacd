"""The cluster as the API server reports it, with the pods that we assume on nodes.

Facts about nodes and pods are written into the columns. A pod that we bind is written there as
assumed before the API server confirms it. An assumption ends by confirmation, forgetting or
removal, never by time. The loop is the only writer, so there is no lock; readers get a view.

This room imports model and snapshot. It is imported by binding, explain, loop, preemption, process
and reporting.
"""
