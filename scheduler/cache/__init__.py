"""What the cluster looks like, as far as we know: what the API server reports, and what we assume.

Facts about nodes and pods are written into the columns, and our own placements with them before the
API server confirms them. An assumption ends by confirmation, forgetting or removal, never by time.
The loop is the only writer, so there is no lock; readers get a view.

This room imports model and snapshot. It is imported by binding, explain, loop, preemption, process
and reporting.
"""
