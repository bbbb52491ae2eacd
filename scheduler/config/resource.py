"""The custom resource that can hold the configuration: its names, as the chart installs them."""

from typing import Final

GROUP: Final = "py-scheduler.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "SchedulerConfiguration"
PLURAL: Final = "schedulerconfigurations"
PATH: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
"""Where the API server lists the objects; they are cluster-scoped."""
