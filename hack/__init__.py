"""Tools for working on py-scheduler: the local control plane, simulated nodes, measuring scripts.

Nothing here ships with the package, and nothing here imports from it: these are the peers a
scheduler meets in a cluster, so that a test can let it meet them.
"""
