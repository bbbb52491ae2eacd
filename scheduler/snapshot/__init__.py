"""The cluster at one instant, in columns: one row for each node, one array for each property.

Columns are written by the cache alone and read through a NodeTable, a view that is valid until the
next fact is applied. A column that depends on a selector or a label is built when it is first read,
is updated with every fact from then on, and is dropped when it has not been read for long. Row
numbers are not stable: when a row is removed, the last row takes its number.

This room imports errors and model. It is imported by binding, cache, cycle, framework and plugins.
"""
