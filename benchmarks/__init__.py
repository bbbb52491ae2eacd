"""Workloads as data, one runner, any scheduler under test.

The schedulers run on the same control plane binaries, in turns, each time on a fresh etcd, with
client limits off for both. Figures vary from machine to machine: only the ratios of one run mean
something.
"""
