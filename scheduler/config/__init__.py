"""A KubeSchedulerConfiguration document becomes frozen values.

Text in, values out: nothing here opens a file or imports a plugin. The caller passes the plugins
that exist and the extension points that they serve. All problems of a document are reported at
once, each with the path of its field.

This room imports errors. It is imported by app, binding, checkup, cli, crds, cycle, explain,
framework, kube, observe, out_of_tree, plugins, process and reload.
"""
