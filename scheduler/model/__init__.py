"""Kubernetes objects as frozen values, decoded from the fields that scheduling reads and no others.

The room kube decodes watches and lists into these structs, and plugins read the same structs, so
nothing is converted in between. Quantities and selectors are parsed once, when kube checks the
object; a value that cannot be parsed raises MalformedObject there and nowhere else.

This room imports errors. It is imported by app, binding, cache, cycle, explain, framework, kube,
loop, out_of_tree, plugins, preemption, process, queue, reload, reporting and snapshot.
"""
