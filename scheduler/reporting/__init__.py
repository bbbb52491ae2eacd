"""Where results are reported: to the loop, to the queue, to the pod and to operators.

The inbox carries facts and results to the loop. The failure handler puts a pod whose attempt failed
back into the queue and says why; the status writer patches its conditions and nomination; telemetry
turns what happened into log lines, metrics and events.

This room imports cache, errors, framework, kube, model, observe and queue. It is imported by app,
binding, loop, preemption and process.
"""
