"""Plugins that did not come with the scheduler: found, supervised, and interrupted.

Entry points and modules are loaded here; a supervisor counts failures, disables a score plugin and
stops a profile whose other plugins keep failing; a timer interrupts a plugin that does not return.

This room imports config, errors, framework, kube, model, plugins and queue. It is imported by app,
binding, checkup, explain, loop and reload.
"""
