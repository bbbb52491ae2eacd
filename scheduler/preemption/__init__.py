"""Carrying out preemptions, and keeping the peace with other schedulers.

Evicts the victims of a preemption and keeps the preemptor out of the queue meanwhile. Remembers
which capacity was freed for which pod, notices when pods of other schedulers take it, and which of
our pods a kubelet rejected. Who has to go is decided below, by the DefaultPreemption plugin. A pod
whose binding is under way may be a victim, too.

This room imports binding, cache, framework, kube, model, queue and reporting. It is imported by
loop.
"""
