"""Tools for testing a plugin, and what our own tests are made of.

Builders make pods, nodes and other objects from a few words, through the same decoder that reads
the API server's answers, so a test can hold nothing that a cluster could not. The product imports
none of this.
"""

from scheduler.testing.builders import make_node, make_object, make_pod

__all__ = ["make_node", "make_object", "make_pod"]
