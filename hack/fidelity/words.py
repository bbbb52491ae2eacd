"""What generated clusters are made of: few words, so that things meet."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = dict[str, Any]
T = TypeVar("T")

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
NAMESPACES: Final = ("default", "team-a", "team-b", "lonely")
APPS: Final = ("web", "db", "cache", "batch")
TIERS: Final = ("front", "back")
RESTRICTED: Final = "node.kubernetes.io/unschedulable"
HARD_TAINTS: Final = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db", "effect": "NoExecute"},
    {"key": "maintenance", "effect": "NoExecute"},
    {"key": "sla", "value": "950", "effect": "NoSchedule"},
    {"key": RESTRICTED, "effect": "NoSchedule"},
)
SOFT_TAINTS: Final = tuple(
    {"key": key, "value": "950", "effect": "PreferNoSchedule"}
    for key in ("spot", "old", "slow", "small")
)
IMAGES: Final = (
    "registry.example/app:1",
    "registry.example/app:2",
    "registry.example:5000/base",
    "registry.example:5000/base:latest",
    "busybox",
    "busybox:latest",
    "registry.example/model@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "registry.example/large:3",
)
BEYOND_INT64: Final = "99999999999999999999"
GPU: Final = "example.com/gpu"
FPGA: Final = "vendor.example/fpga"
BATCH: Final = "kubernetes.io/batch-cpu"
HUGE: Final = "hugepages-2Mi"
DISRUPTED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
}
FEATURES: Final = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


class Dice:
    """Seeded choices; the same seed makes the same cluster in every process."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def one(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """Choose several different ones, in any order."""
        return self._random.sample(choices, min(len(choices), self._random.randint(least, most)))

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def weighted(self, choices: Mapping[T, float]) -> T:
        return self._random.choices(list(choices), list(choices.values()))[0]

    def labels(self) -> dict[str, str]:
        """Make labels of a pod."""
        labels = {}
        if self.chance(0.9):
            labels["app"] = self.one(APPS)
        if self.chance(0.5):
            labels["tier"] = self.one(TIERS)
        if self.chance(0.3):
            labels["version"] = self.one(("1", "2"))
        return labels

    def cpu(self) -> str:
        return self.one(("50m", "100m", "250m", "500m", "0.5", "1", "1500m", "0.1", "1e0", "333m"))

    def memory(self) -> str:
        # No binary fraction, as in 1.5Gi: the API server stores such a quantity as 1536Mi, and
        # where it is not stored so, upstream adds up requests in place.
        return self.one(
            ("64Mi", "100M", "256Mi", "1Gi", "1536Mi", "2Gi", "1e9", "123456789", "700Mi", "512Ki")
        )


def without_empty(fields: Json) -> Json:
    """Leave out what was not chosen."""
    return {name: value for name, value in fields.items() if value is not None}
