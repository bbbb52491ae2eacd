"""Configuration documents: good ones, each with one thing changed, and profiles drawn by lot.

A changed document differs from a good one in one place: a field is gone, unknown, repeated, or
holds another value, of its own kind or of another. A drawn one switches plugins on and off at
random.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

from hack.fidelity.words import Dice, Json
from scheduler.config.default_plugins import DEFAULT_PLUGINS, REMOVED
from scheduler.config.document import API_VERSION, KIND
from scheduler.config.extension_point import Point

if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = tuple[str | int, ...]

_HEAD: Final[Json] = {"apiVersion": API_VERSION, "kind": KIND}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_ARGS: Final[dict[str, Json]] = {
    "DefaultPreemption": {"minCandidateNodesPercentage": 5, "minCandidateNodesAbsolute": 50},
    "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "1m30s"},
    "InterPodAffinity": {
        "hardPodAffinityWeight": 5,
        "ignorePreferredTermsOfExistingPods": True,
    },
    "NodeAffinity": {
        "addedAffinity": {
            _REQUIRED: {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["n"]}
                        ],
                    }
                ]
            },
            _PREFERRED: [
                {
                    "weight": 5,
                    "preference": {
                        "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["3"]}]
                    },
                }
            ],
        }
    },
    "NodeResourcesBalancedAllocation": {
        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    },
    "NodeResourcesFit": {
        "apiVersion": API_VERSION,
        "kind": "NodeResourcesFitArgs",
        "ignoredResources": ["example.com/a"],
        "ignoredResourceGroups": ["example.com"],
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "resources": [{"name": "cpu", "weight": 3}],
            "requestedToCapacityRatio": {
                "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
            },
        },
    },
    "PodTopologySpread": {
        "defaultingType": "List",
        "defaultConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Ignore",
                "matchLabelKeys": ["a"],
            },
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 2,
            },
        ],
    },
    "VolumeBinding": {"bindTimeoutSeconds": 60},
}

_PARTS: Final[tuple[Json, ...]] = (
    {
        "parallelism": 8,
        "enableProfiling": True,
        "enableContentionProfiling": False,
        "percentageOfNodesToScore": 50,
        "podInitialBackoffSeconds": 2,
        "podMaxBackoffSeconds": 20,
        "delayCacheUntilActive": False,
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "20s",
            "renewDeadline": "12s",
            "retryPeriod": "1500ms",
            "resourceLock": "leases",
            "resourceNamespace": "apps",
            "resourceName": "mine",
        },
        "clientConnection": {
            "kubeconfig": "/etc/kubeconfig",
            "acceptContentTypes": "application/json",
            "contentType": "application/json",
            "qps": 75.5,
            "burst": 150,
        },
    },
    {
        "profiles": [
            {
                "schedulerName": "a",
                "percentageOfNodesToScore": 10,
                "plugins": {
                    "multiPoint": {
                        "enabled": [{"name": "TaintToleration", "weight": 5}],
                        "disabled": [{"name": "ImageLocality"}],
                    },
                    "score": {
                        "enabled": [{"name": "NodeAffinity", "weight": 3}],
                        "disabled": [{"name": "NodeResourcesFit"}],
                    },
                    "filter": {"disabled": [{"name": "NodePorts"}]},
                    "preScore": {"enabled": [{"name": "PodTopologySpread"}]},
                    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                    "bind": {"enabled": [{"name": "DefaultBinder"}], "disabled": [{"name": "*"}]},
                },
            },
            {
                "schedulerName": "b",
                "plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}},
            },
        ]
    },
    *({"profiles": [{"pluginConfig": [{"name": n, "args": args}]}]} for n, args in _ARGS.items()),
    {
        "extenders": [
            {
                "urlPrefix": "https://extender.example.com/base",
                "filterVerb": "filter",
                "preemptVerb": "preempt",
                "prioritizeVerb": "prioritize",
                "weight": 2,
                "bindVerb": "bind",
                "enableHTTPS": True,
                "tlsConfig": {
                    "insecure": False,
                    "serverName": "s",
                    "certFile": "",
                    "keyFile": "",
                    "caFile": "",
                    "certData": "",
                    "keyData": "",
                    "caData": "",
                },
                "httpTimeout": "7s",
                "nodeCacheCapable": True,
                "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
                "ignorable": True,
            }
        ]
    },
)

_VALUES: Final[tuple[Any, ...]] = (
    *(None, "", "a", "a b", "*", "EBSLimits", "PrioritySort", "default-scheduler", "A/B"),
    *("kubernetes.io/x", "example.com/b", "x" * 300, "5", "0", "-1s", "1ms", "1h", "99999999h"),
    *(0, -1, 1, 2, 101, 1.5, 1e30, 2**31, 2**63, True, False),
    *([], {}, [1], ["a"], {"x": 1}, [{}], [None]),
)

_TEXTS: Final = (
    "",
    "---\n",
    "[]",
    "null",
    "a: [",
    "\tparallelism: 1",
    "kind: KubeSchedulerConfiguration",
    f"apiVersion: {API_VERSION}",
    f"apiVersion: {API_VERSION}\nkind: Pod",
    "apiVersion: v1\nkind: Pod",
    *(f"apiVersion: kubescheduler.config.k8s.io/{v}\nkind: {KIND}" for v in ("v1beta3", "v2", "")),
    *(
        f"apiVersion: {API_VERSION}\nkind: {KIND}\n{body}"
        for body in (
            "---",
            "---\n# nothing\n",
            "parallelism: 1\nparallelism: 2",
            "profiles: [{schedulerName: a, schedulerName: b}]",
            "x: &a {qps: 5}\nclientConnection: *a",
            "clientConnection: &c {qps: 5}\nleaderElection: *c",
            "profiles: &p [*p]",
            "clientConnection: {qps: 1e3}",
            "clientConnection: {qps: 1e3, burst: 0x10}",
            "clientConnection: {burst: 010}",
            "clientConnection: {burst: 0o10}",
            "clientConnection: {burst: 0b11}",
            "clientConnection: {burst: 1_000}",
            "clientConnection: {burst: 1:30}",
            "clientConnection: {qps: 1:30}",
            "clientConnection: {burst: '5'}",
            "clientConnection: {burst: !!int '5'}",
            "clientConnection: {kubeconfig: !!str 5}",
            "clientConnection: {kubeconfig: 2026-01-01}",
            "clientConnection: {kubeconfig: 1:30}",
            "clientConnection: {kubeconfig: y}",
            "clientConnection: {kubeconfig: 'y'}",
            "clientConnection: {kubeconfig: ~}",
            "delayCacheUntilActive: y",
            "delayCacheUntilActive: on",
            "delayCacheUntilActive: 'true'",
            "delayCacheUntilActive: !!bool yes",
            "enableProfiling: Off",
            "clientConnection: {qps: -1}",
            "clientConnection: {Qps: 1}",
            "Parallelism: 1",
            "leaderElection: {leaseDuration: 0s, renewDeadline: 0s, retryPeriod: 0s}",
            "leaderElection: {leaseDuration: 15}",
            "leaderElection: {leaseDuration: 1.5m}",
            "leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: endpoints}",
            "extenders: [{httpTimeout: 0s}]",
            "extenders: [{bindVerb: a}, {bindVerb: b}]",
            "profiles: []",
            "profiles: [{}, {}]",
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            "profiles: [{pluginConfig: [{name: Mine, args: {a: 1}}]}]",
            "profiles: [{pluginConfig: [{name: NodeResourcesFit}]}]",
            "profiles: [{pluginConfig: [{name: NodeName, args: {a: 1}}]}]",
            "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}}]",
            "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
            "profiles: [{plugins: {bind: {disabled: [{name: DefaultBinder}]}}}]",
            "profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}}}]",
            "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}}}]",
            "profiles: [{plugins: {filter: {enabled: [{name: ImageLocality}]}}}]",
            "profiles: [{plugins: {score: {enabled: [{name: NoSuchPlugin}]}}}]",
        )
    ),
)


def make_documents(seed: int, changed: int, drawn: int) -> list[str]:
    """Make the good documents, so many changed and so many drawn ones, as text."""
    dice = Dice(f"documents {seed}")
    good = [{**_HEAD, **part} for part in _PARTS]
    every_change = [each for document in good for each in _changed(document)]
    chosen = dice.some(every_change, changed, changed)
    profiles = (_drawn(dice) for _ in range(drawn))
    mixed = [*chosen, *profiles]
    return [
        *_TEXTS,
        *(json.dumps(each) for each in (*good, *dice.some(mixed, len(mixed), len(mixed)))),
    ]


def _changed(document: Json) -> Iterator[Json]:
    """Yield *document* with one change, for every place and every change."""
    for path in _paths(document):
        yield _with(document, path, gone=True)
        for value in _VALUES:
            yield _with(document, path, value)
        held = _at(document, path)
        if isinstance(held, dict):
            yield _with(document, (*path, "unheardOf"), 1)
        if isinstance(held, list):
            yield _with(document, path, [*held, *held])


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    entries = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else entries:
        yield from _paths(inner, (*path, key))


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _with(document: Json, path: Path, value: Any = None, *, gone: bool = False) -> Json:
    changed = copy.deepcopy(document)
    around = _at(changed, path[:-1])
    if gone:
        del around[path[-1]]
    else:
        around[path[-1]] = value
    return changed


def _drawn(dice: Dice) -> Json:
    """Draw a document of some profiles; more often than not all its names exist."""
    names = [plugin.name for plugin in DEFAULT_PLUGINS]
    profiles = [
        {"schedulerName": f"p{number}", "plugins": _plugins(dice, names)}
        for number in range(dice.one((1, 1, 1, 2)))
    ]
    return {**_HEAD, "profiles": profiles}


def _plugins(dice: Dice, names: list[str]) -> Json:
    said = {"multiPoint": _plugin_set(dice, names, names)}
    for point in (Point.SCORE, *dice.some(list(Point), 0, 3)):
        serving = [plugin.name for plugin in DEFAULT_PLUGINS if point in plugin.points]
        if serving:
            some = names if dice.chance(0.02) else serving
            said[point.field] = _plugin_set(dice, some, names)
    return said


def _plugin_set(dice: Dice, serving: list[str], names: list[str]) -> Json:
    most = 2 if serving is names else 3
    enabled = [_entry(dice, name) for name in dice.some(serving, 0, most)]
    disabled = dice.some([*names, "*"], 0, 2)
    return {"enabled": enabled, "disabled": [{"name": name} for name in disabled]}


def _entry(dice: Dice, name: str) -> Json:
    if dice.chance(0.01):
        name = dice.one(sorted(REMOVED))
    entry: Json = {"name": name}
    if dice.chance(0.5):
        entry["weight"] = dice.one((0, 1, 2, 7, 100))
    return entry
