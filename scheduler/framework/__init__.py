"""The plugin contract and its runner.

A plugin judges all nodes at once: rows in, one value a row out. This room has the methods that a
plugin may have and the answers that it may give, as protocols and frozen values; the runner calls
plugins in the profile's order and adds up their answers into a diagnosis and scores. Decisions and
effects are values too: this room says what to do and never does it.

This room imports config, errors, model and snapshot. It is imported by binding, checkup, cycle,
explain, kube, loop, observe, out_of_tree, plugins, preemption, queue, reload and reporting.
"""
