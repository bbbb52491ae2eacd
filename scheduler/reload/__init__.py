"""A changed configuration, from its text to a loop that runs with it.

First comes a plan: whether the text can be read, whether it needs a restart, which plugins it names
and which permissions and watches those need. Only then is anything applied. The last step is one
message to the loop, which exchanges everything between two pods. A failure in any step leaves the
earlier configuration in force, as a whole.

This room imports config, crds, errors, framework, kube, loop, model, observe, out_of_tree, plugins,
process and queue. It is imported by app.
"""
