"""What runs beside the loop for as long as the process lives.

It contains leadership, the watches that fill the inbox, the comparison of the cache with the API
server, and the gauges that are read at each scrape. No code of it decides about a pod.

This room imports cache, config, errors, kube, loop, model, observe and reporting. It is imported by
app and reload.
"""
