"""Configurations: half of the clusters run the defaults, the others turn what can be turned."""

from __future__ import annotations

from typing import Final

from hack.fidelity.only_labelled import OnlyLabelled
from hack.fidelity.words import FPGA, GPU, HOSTNAME, ZONE, Dice, Json

_SHAPES: Final = (
    [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}],
    [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
    [
        {"utilization": 10, "score": 1},
        {"utilization": 40, "score": 10},
        {"utilization": 90, "score": 3},
    ],
)


def make_config(dice: Dice) -> Json:
    """Make a document with one profile."""
    profile = _profile(dice, "py-scheduler")
    if dice.chance(0.7):
        profile["plugins"]["multiPoint"]["enabled"].append({"name": OnlyLabelled.name})
    return as_document(profile)


def make_live_profiles(dice: Dice) -> list[Json]:
    """Make profiles that kube-scheduler itself takes: the default one, and some others."""
    default = {"schedulerName": "py-scheduler", "plugins": {"multiPoint": {}}}
    return [default, *(_profile(dice, f"profile-{index}") for index in range(6))]


def as_document(profile: Json) -> Json:
    """Return the document with that one profile."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def _profile(dice: Dice, name: str) -> Json:
    arguments = {} if dice.chance(0.5) else _arguments(dice)
    enabled: list[Json] = []
    profile: Json = {"schedulerName": name, "plugins": {"multiPoint": {"enabled": enabled}}}
    if arguments:
        profile["pluginConfig"] = [
            {"name": plugin, "args": args} for plugin, args in arguments.items() if args
        ]
    if dice.chance(0.2):
        # A weight of its own, at its old place.
        enabled.append({"name": dice.one(("TaintToleration", "ImageLocality")), "weight": 7})
    return profile


def _arguments(dice: Dice) -> dict[str, Json]:
    arguments: dict[str, Json] = {}
    if dice.chance(0.7):
        arguments["NodeResourcesFit"] = _fit(dice)
    if dice.chance(0.4):
        arguments["NodeResourcesBalancedAllocation"] = {
            "resources": [
                {"name": name, "weight": 1}
                for name in dice.some(("cpu", "memory", GPU, "ephemeral-storage"), 1, 4)
            ]
        }
    if dice.chance(0.4):
        arguments["NodeAffinity"] = {"addedAffinity": _added(dice)}
    if dice.chance(0.5):
        arguments["PodTopologySpread"] = {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": dice.number(1, 3), "topologyKey": key, "whenUnsatisfiable": action}
                for key in dice.some((ZONE, HOSTNAME, "rack"), 0, 2)
                for action in dice.some(("DoNotSchedule", "ScheduleAnyway"), 1, 2)
            ],
        }
    if dice.chance(0.4):
        arguments["InterPodAffinity"] = {
            "hardPodAffinityWeight": dice.one((0, 1, 10, 100)),
            "ignorePreferredTermsOfExistingPods": dice.chance(0.5),
        }
    return arguments


def _fit(dice: Dice) -> Json:
    resources = [
        {"name": name, "weight": dice.one((1, 1, 2, 5, 100))}
        for name in dice.some(("cpu", "memory", GPU, "ephemeral-storage"), 1, 4)
    ]
    kind = dice.one(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Json = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": dice.one(_SHAPES)}
    made: Json = {"scoringStrategy": strategy}
    if dice.chance(0.4):
        made["ignoredResources"] = [dice.one((GPU, FPGA))]
    if dice.chance(0.3):
        made["ignoredResourceGroups"] = ["vendor.example"]
    return made


def _added(dice: Dice) -> Json:
    made: Json = {}
    if dice.chance(0.6):
        made["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "disk", "operator": "NotIn", "values": [dice.one(("ssd", "hdd"))]}
                    ]
                }
            ]
        }
    if dice.chance(0.6) or not made:
        made["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": dice.number(1, 20),
                "preference": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]},
            }
        ]
    return made
