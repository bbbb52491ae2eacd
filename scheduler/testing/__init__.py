"""Tools for testing a plugin, which our own tests use as well.

Builders make pods, nodes and other objects from a few words, through the same decoder that reads
the API server's answers, so a test can make no object that a cluster could not have; ``make_table``
puts them into rows. ``check_plugin`` checks a plugin against the contract.

This room imports binding, config, errors, framework, kube, loop, model, observe, out_of_tree,
plugins, queue, reporting and snapshot. No other imports it.
"""

from scheduler.testing.builders import make_node, make_object, make_pod
from scheduler.testing.check_plugin import check_plugin
from scheduler.testing.example_clusters import make_table

__all__ = ["check_plugin", "make_node", "make_object", "make_pod", "make_table"]
