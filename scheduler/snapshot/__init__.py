"""What is known at one instant, in columns: one row a node, one array a question.

Columns are written by the cache alone and read through a NodeTable, a view that is valid until the
next fact is applied. A column exists only once somebody has asked for it, is kept up to date from
then on, and is forgotten when nobody has asked for long. Rows are dense and mean nothing by
themselves: a removed node's row is filled by the last one. This room knows model and errors, and
NumPy.
"""
