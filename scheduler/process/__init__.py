"""What runs beside the loop for as long as the process lives.

Leadership, the watches that fill the inbox, the comparison of the cache with the API server, and
the gauges that are read at each scrape. This room knows the loop's parts and is known by reload and
app; nothing in it decides about a pod.
"""
