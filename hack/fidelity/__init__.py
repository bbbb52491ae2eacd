"""Are our plugins kube-scheduler's? Generated clusters, put to both; every answer compared.

``python -m hack.fidelity --pods 6000 --live-pods 300 --seed 1`` makes clusters and pending pods
from a seed. First it asks the oracle (``hack.oracle``: the plugins of the pinned kube-scheduler)
and our own cycle about the same JSON, and compares what each plugin says about each node: gates,
pre-filter, verdicts and reasons, raw, normalised and weighted scores, totals, the nodes that are
left, the message where none is, and which pods would be evicted. Then it posts pods to a real API
server with a real kube-scheduler (``live``), and compares all three.

A run also has to prove that it asked enough: each reason, acceptance and score must have occurred
often, or the run fails. ``tests/golden`` keeps some of the oracle's answers, so that they are
compared without a Go toolchain on every run of the tests.
"""
