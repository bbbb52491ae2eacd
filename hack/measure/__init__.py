"""Measures our code: its shape, and the path of a pod through it.

Numbers for reviews. Only the length of the path is a gate (tests/unit/hack/test_measure.py).
"""
