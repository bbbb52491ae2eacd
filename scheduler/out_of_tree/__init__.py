"""Plugins that did not come with the scheduler: found, supervised, and interrupted.

Entry points and modules are loaded here. A supervisor counts failures: it disables a plugin that
keeps failing at Score, and stops the profile of one that keeps failing elsewhere. A timer
interrupts a plugin that does not return.

This room imports config, errors, framework, kube, model, plugins and queue. It is imported by app,
binding, checkup, explain, loop and reload.
"""
