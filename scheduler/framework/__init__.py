"""The plugin contract and its runner.

A plugin answers for all nodes at once: rows in, one value a row out. What it can be asked, what it
may answer and what happens with each answer stands here, as protocols and frozen values; the runner
asks plugins in the profile's order and adds up what they say into a diagnosis and scores. Decisions
and effects are values too: this room decides what should be done and never does it. It knows
snapshot, model and errors.
"""
