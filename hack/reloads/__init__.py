"""Random changes of the configuration, under load: ``make reloads``.

A real control plane, two replicas that follow one SchedulerConfiguration, and pods that keep
coming. One change in five cannot be used. Every status that the API server ever tells is held to
what the generator did, and in the end every pod is where it has to be.
"""
