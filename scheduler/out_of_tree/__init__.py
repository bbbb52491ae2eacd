"""Plugins that did not come with the scheduler: found, supervised, and interrupted.

Entry points and modules are loaded here; a supervisor counts failures, switches a score plugin off
and stops a profile whose other plugins keep failing; a timer interrupts a plugin that gives no
answer. This room knows framework, config and queue's rules, and neither the loop nor the API
server.
"""
