"""A changed configuration, from its text to a loop that runs by it.

What the text means is decided first: whether it can be read, whether it needs a restart, which
plugins it wants and what those have to be permitted and to be told. Only then is anything done, and
the last step is one message to the loop, between two pods. Whatever fails on the way leaves the
configuration before it in force, whole. This room knows the loop and is known by app alone.
"""
