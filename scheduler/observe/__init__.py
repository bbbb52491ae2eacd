"""What can be seen from outside: logs, metrics, health and the history of each pod.

This room records; it decides nothing, and no decision waits for it. It imports neither the API
client nor the loop: those call it, or register a function that reads a gauge.

This room imports config, errors, framework and pem. It is imported by app, binding, crds, loop,
process, reload and reporting.
"""
