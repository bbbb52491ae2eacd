"""Configurations at random, and what has to become of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from hack.api import Json

HEAD: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
_DROPPABLE: Final = (
    "ImageLocality",
    "NodeResourcesBalancedAllocation",
    "InterPodAffinity",
    "PodTopologySpread",
    "TaintToleration",
    "NodeAffinity",
    "VolumeZone",
    "DefaultPreemption",
)
_FEW: Final = ("PrioritySort", "NodeResourcesFit", "NodeName", "NodeUnschedulable", "DefaultBinder")


@dataclass(frozen=True)
class Change:
    """A configuration, and what has to become of it.

    Args:
        reason: Of the condition Active: Applied where it can be used.
        says: What the message must name, where it cannot.
    """

    document: Json
    reason: str = "Applied"
    says: str = ""

    @property
    def good(self) -> bool:
        """Whether it has to be in force."""
        return self.reason == "Applied"

    @property
    def names(self) -> tuple[str, ...]:
        """The scheduler names that it serves."""
        return tuple(each["schedulerName"] for each in self.document["profiles"])


def any_change(rng: Random, names: Sequence[str]) -> Change:
    """Draw a change; one in five cannot be used."""
    good = good_change(rng, names)
    return rng.choice(_MISTAKES)(rng, good.document) if rng.random() < 0.2 else good


def good_change(rng: Random, names: Sequence[str]) -> Change:
    """Draw a configuration that can be used, for some of *names*."""
    served = rng.sample(names, rng.randint(1, len(names)))
    initial = rng.randint(1, 2)
    document = HEAD | {
        "podInitialBackoffSeconds": initial,
        "podMaxBackoffSeconds": rng.randint(initial, 4),
        "percentageOfNodesToScore": rng.choice([0, 0, 50, 100]),
        "profiles": [_profile(rng, name) for name in served],
    }
    if rng.random() < 0.1:
        # Nobody listens there; it may be passed over, and wants whole pods and nodes.
        document["extenders"] = [
            {
                "urlPrefix": "http://127.0.0.1:9",
                "filterVerb": "filter",
                "ignorable": True,
                "httpTimeout": "500ms",
                "managedResources": [{"name": "example.com/rare"}],
            }
        ]
    return Change(document)


def whole(names: Sequence[str]) -> Change:
    """Return the configuration that serves all *names* with the default plugins."""
    profiles = [{"schedulerName": name} for name in names]
    backoff = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
    return Change(HEAD | backoff | {"profiles": profiles})


def _profile(rng: Random, name: str) -> Json:
    profile: Json = {"schedulerName": name}
    plugins: dict[str, Any] = {}
    if rng.random() < 0.15:
        plugins["multiPoint"] = {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": each} for each in _FEW],
        }
    elif rng.random() < 0.5:
        dropped = rng.sample(_DROPPABLE, rng.randint(1, 4))
        plugins["multiPoint"] = {"disabled": [{"name": each} for each in dropped]}
    if rng.random() < 0.3:
        plugins["permit"] = {"enabled": [{"name": "hack.reloads.plugins:Dawdle"}]}
    if rng.random() < 0.2:
        weight = rng.randint(1, 9)
        plugins["score"] = {"enabled": [{"name": "hack.reloads.plugins:ByName", "weight": weight}]}
    if plugins:
        profile["plugins"] = plugins
    if rng.random() < 0.4:
        profile["pluginConfig"] = [_fit_args(rng)]
    return profile


def _fit_args(rng: Random) -> Json:
    kind = rng.choice(["LeastAllocated", "MostAllocated"])
    weights = [{"name": name, "weight": rng.randint(1, 100)} for name in ("cpu", "memory")]
    strategy = {"type": kind, "resources": weights}
    return {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}


# Mistakes: each makes a document that can be used into one that cannot.


def _unknown_field(_rng: Random, document: Json) -> Change:
    first, *rest = document["profiles"]
    broken = document | {"profiles": [first | {"plugin": {}}, *rest]}
    return Change(broken, "Invalid", "profiles[0].plugin: unknown field")


def _backoff(_rng: Random, document: Json) -> Change:
    return Change(document | {"podMaxBackoffSeconds": 0}, "Invalid", "podMaxBackoffSeconds: must")


def _percentage(rng: Random, document: Json) -> Change:
    broken = document | {"percentageOfNodesToScore": rng.randint(101, 999)}
    return Change(broken, "Invalid", "percentageOfNodesToScore: not in valid range")


def _duplicate(_rng: Random, document: Json) -> Change:
    first = document["profiles"][0]
    broken = document | {"profiles": [first, {"schedulerName": first["schedulerName"]}]}
    return Change(broken, "Invalid", "profiles[1].schedulerName: duplicate")


def _reserved(_rng: Random, document: Json) -> Change:
    broken = document | {"profiles": [{"schedulerName": "default-scheduler"}]}
    return Change(broken, "Invalid", "profiles[0].schedulerName: default-scheduler belongs")


def _no_such_plugin(_rng: Random, document: Json) -> Change:
    plugins = {"score": {"enabled": [{"name": "Typo"}]}}
    name = document["profiles"][0]["schedulerName"]
    broken = document | {"profiles": [{"schedulerName": name, "plugins": plugins}]}
    return Change(broken, "Invalid", "Typo")


def _no_such_module(_rng: Random, document: Json) -> Change:
    plugins = {"filter": {"enabled": [{"name": "nobody_wrote_it:Plugin"}]}}
    name = document["profiles"][0]["schedulerName"]
    broken = document | {"profiles": [{"schedulerName": name, "plugins": plugins}]}
    return Change(broken, "Invalid", "there is no module nobody_wrote_it")


def _arguments(_rng: Random, document: Json) -> Change:
    weights = [{"name": "cpu", "weight": 101}]
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": weights}}
    name = document["profiles"][0]["schedulerName"]
    config = [{"name": "NodeResourcesFit", "args": args}]
    broken = document | {"profiles": [{"schedulerName": name, "pluginConfig": config}]}
    return Change(broken, "Invalid", "profiles[0].pluginConfig[0].args.scoringStrategy.resources")


def _lease(_rng: Random, document: Json) -> Change:
    broken = document | {"leaderElection": {"leaseDuration": "99s"}}
    return Change(broken, "NeedsRestart", "leaderElection.leaseDuration: needs a restart")


def _connection(rng: Random, document: Json) -> Change:
    broken = document | {"clientConnection": {"qps": rng.randint(1, 99)}}
    return Change(broken, "NeedsRestart", "clientConnection.qps: needs a restart")


_MISTAKES: Final[tuple[Callable[[Random, Json], Change], ...]] = (
    _unknown_field,
    _backoff,
    _percentage,
    _duplicate,
    _reserved,
    _no_such_plugin,
    _no_such_module,
    _arguments,
    _lease,
    _connection,
)
