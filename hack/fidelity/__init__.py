"""Are our plugins kube-scheduler's? Generated clusters, put to both; every answer compared.

``python -m hack.fidelity --pods 5000 --seed 1`` makes clusters and pending pods from a seed, asks
the oracle (``hack.oracle``: the plugins of the pinned kube-scheduler) and our own cycle about the
same JSON, and compares what each plugin says about each node: pre-filter, verdicts and reasons,
raw, normalised and weighted scores, totals, the nodes that are left and the message where none is.

A run also has to prove that it asked enough: each reason, acceptance and score must have occurred
often, or the run fails. ``tests/golden`` keeps some of the oracle's answers, so that they are
compared without a Go toolchain on every run of the tests.
"""
