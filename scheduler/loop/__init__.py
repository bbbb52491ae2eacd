"""Facts in, decisions carried out.

Watches post facts to the inbox; the control loop drains it into cache and queue, takes the next
pod, runs one cycle and carries its decision out. The loop is the only writer of cache and queue, so
no lock is needed: what binding tasks learn comes back through the inbox as well. A bind is assumed
first and posted second, by a task of its own. This room knows everything below it and is known by
app alone.
"""
