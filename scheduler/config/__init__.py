"""A KubeSchedulerConfiguration document becomes frozen values.

Text in, values out: nothing here opens a file, and nothing here knows a plugin. Who calls says
which plugins exist and what they can do. Every problem of a document is reported at once, each with
the path of its field.
"""
