"""Tools for working on py-scheduler: the local control plane, simulated nodes, measuring scripts.

Nothing here ships with the package, and little here imports from it: most are the peers that a
scheduler meets in a cluster, so that a test can let it meet them. ``hack.fidelity`` puts the same
questions to the scheduler and to kube-scheduler.
"""
