"""What a tenant can cost others: objects as large and odd as an API server accepts.

`kinds` lists them as data. `inside` runs the scheduler's core in this process and measures in CPU
time, and `measure` and `judge` say what each kind costs and may cost. `churn` creates and deletes
pods with ever new names of everything, and `tables` counts what stays. `live` runs py-scheduler and
kube-scheduler on a real control plane beside the same objects.
"""
