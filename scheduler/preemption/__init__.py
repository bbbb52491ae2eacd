"""Carrying out preemptions, and keeping other schedulers from undoing them.

This room evicts the victims of a preemption and keeps the preemptor out of the queue meanwhile. It
remembers which capacity was freed for which pod, notices when pods of other schedulers take it, and
which of our pods a kubelet rejected. The DefaultPreemption plugin chooses the victims. A pod whose
binding is under way may be a victim, too.

This room imports binding, cache, framework, kube, model, queue and reporting. It is imported by
loop.
"""
