"""The arguments of plugins: decoding, defaults that depend on each other, rules.

Source: ``pkg/scheduler/apis/config/validation/validation_pluginargs.go`` and ``…/v1/defaults.go``.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, cast

from msgspec.structs import replace

from scheduler.config import plugin_args as args
from scheduler.config.document import API_VERSION, PluginConfig
from scheduler.config.fields import StructDecoder, encode
from scheduler.config.problems import Problems, child
from scheduler.config.validation import is_label_name

PluginArgs = args.Args | Mapping[str, Any]
"""A struct for a plugin that upstream knows, the plain mapping for any other."""

_STRATEGIES: Final = (
    args.LEAST_ALLOCATED,
    args.MOST_ALLOCATED,
    args.REQUESTED_TO_CAPACITY_RATIO,
)


def decode_args(config: PluginConfig, path: str, decoder: StructDecoder) -> PluginArgs:
    """Return the arguments in *config*, found at *path*, checked where upstream knows them."""
    if config.name not in args.TYPED:
        return MappingProxyType(config.args)
    given = dict(config.args)
    _check_type(config.name, given, path, decoder.problems)
    decoded = _complete(decoder.struct(args.TYPED[config.name], given, path))
    if isinstance(decoded, args.NodeAffinityArgs):
        decoded = _with_checked_affinity(decoded, child(path, "addedAffinity"), decoder)
    if type(decoded) in _RULES:
        _RULES[type(decoded)](decoded, path, decoder.problems)
    return decoded


def _check_type(name: str, given: dict[str, Any], path: str, problems: Problems) -> None:
    """Remove the type from *given*; it may be absent, since the plugin's name implies it."""
    expected = {"kind": f"{name}Args", "apiVersion": API_VERSION}
    for field, value in expected.items():
        if given.pop(field, value) not in (value, None, ""):
            text = f"has to match plugin args; write {value}, or leave it out"
            problems.add(child(path, field), text)


def _complete(decoded: args.Args) -> args.Args:
    """Fill in what upstream fills in even though the field around it was given."""
    match decoded:
        case args.NodeResourcesFitArgs(scoring_strategy=strategy):
            resources = _completed_resources(strategy.resources)
            return replace(decoded, scoring_strategy=replace(strategy, resources=resources))
        case args.NodeResourcesBalancedAllocationArgs(resources=resources):
            return replace(decoded, resources=_completed_resources(resources))
    return decoded


def _with_checked_affinity(
    given: args.NodeAffinityArgs, path: str, decoder: StructDecoder
) -> args.NodeAffinityArgs:
    """Check the fields of the affinity; the plugin checks its expressions."""
    if given.added_affinity is None:
        return given
    read = decoder.struct(args.AddedAffinity, given.added_affinity, path)
    return replace(given, added_affinity=encode(read))


def _completed_resources(given: tuple[args.ResourceSpec, ...]) -> tuple[args.ResourceSpec, ...]:
    filled = tuple(replace(each, weight=each.weight or 1) for each in given)
    return filled or args.CPU_AND_MEMORY


def _check_preemption(given: args.DefaultPreemptionArgs, path: str, problems: Problems) -> None:
    percentage, absolute = given.min_candidate_nodes_percentage, given.min_candidate_nodes_absolute
    if not 0 <= percentage <= 100:
        text = f"not in valid range [0, 100], got {percentage}"
        problems.add(child(path, "minCandidateNodesPercentage"), text)
    if absolute < 0:
        text = f"not in valid range [0, inf), got {absolute}"
        problems.add(child(path, "minCandidateNodesAbsolute"), text)
    if percentage == absolute == 0:
        text = "cannot be zero at the same time as minCandidateNodesAbsolute"
        problems.add(child(path, "minCandidateNodesPercentage"), text)
        text = "cannot be zero at the same time as minCandidateNodesPercentage"
        problems.add(child(path, "minCandidateNodesAbsolute"), text)


def _check_inter_pod(given: args.InterPodAffinityArgs, path: str, problems: Problems) -> None:
    weight = given.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        text = f"not in valid range [0, 100], got {weight}"
        problems.add(child(path, "hardPodAffinityWeight"), text)


def _check_fit(given: args.NodeResourcesFitArgs, path: str, problems: Problems) -> None:
    for index, name in enumerate(given.ignored_resources):
        if not is_label_name(name):
            text = f"{name!r} is no resource name such as example.com/gpu"
            problems.add(f"{path}.ignoredResources[{index}]", text)
    for index, name in enumerate(given.ignored_resource_groups):
        where = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in name:
            problems.add(where, f"resource group name can't contain '/', got {name!r}")
        elif not is_label_name(name):
            problems.add(where, f"{name!r} is no resource group such as example.com")
    _check_strategy(given.scoring_strategy, child(path, "scoringStrategy"), problems)


def _check_strategy(given: args.ScoringStrategy, path: str, problems: Problems) -> None:
    if given.type not in _STRATEGIES:
        text = f"must be one of {', '.join(_STRATEGIES)}, got {given.type!r}"
        problems.add(child(path, "type"), text)
    for index, resource in enumerate(given.resources):
        where = f"{path}.resources[{index}]"
        _check_resource_name(resource.name, where, problems)
        if not 0 < resource.weight <= 100:
            text = f"resource weight of {resource.name} not in valid range (0, 100]"
            problems.add(child(where, "weight"), f"{text}, got {resource.weight}")
    _check_ratio(given, child(path, "requestedToCapacityRatio"), problems)


def _check_ratio(given: args.ScoringStrategy, path: str, problems: Problems) -> None:
    wanted = given.type == args.REQUESTED_TO_CAPACITY_RATIO
    if given.requested_to_capacity_ratio is None:
        if wanted:
            problems.add(path, f"must be specified when type is {given.type}")
    elif wanted:
        shape = given.requested_to_capacity_ratio.shape
        _check_shape(shape, child(path, "shape"), problems)
    else:
        text = f"must be nil when type is not {args.REQUESTED_TO_CAPACITY_RATIO}; remove it"
        problems.add(path, text)


def _check_shape(shape: tuple[args.ShapePoint, ...], path: str, problems: Problems) -> None:
    if not shape:
        problems.add(path, "at least one point must be specified")
    for index, (before, point) in enumerate(pairwise(shape), 1):
        if point.utilization <= before.utilization:
            text = "values must be sorted in increasing order"
            problems.add(f"{path}[{index}].utilization", f"{text}, got {point.utilization}")
    for index, point in enumerate(shape):
        for name, value, top in (
            ("utilization", point.utilization, 100),
            ("score", point.score, 10),
        ):
            if not 0 <= value <= top:
                text = f"not in valid range [0, {top}], got {value}"
                problems.add(f"{path}[{index}].{name}", text)


def _check_resource_name(name: str, path: str, problems: Problems) -> None:
    if not is_label_name(name):
        problems.add(child(path, "name"), f"{name!r} is no resource name such as cpu")


def _check_balance(
    given: args.NodeResourcesBalancedAllocationArgs, path: str, problems: Problems
) -> None:
    seen: set[str] = set()
    for index, resource in enumerate(given.resources):
        where = f"{path}.resources[{index}]"
        _check_resource_name(resource.name, where, problems)
        if resource.name in seen:
            problems.add(child(where, "name"), f"duplicate {resource.name}; keep one of them")
        if resource.weight != 1:
            problems.add(child(where, "weight"), f"must be 1, got {resource.weight}")
        seen.add(resource.name)


def _check_spread(given: args.PodTopologySpreadArgs, path: str, problems: Problems) -> None:
    where = child(path, "defaultingType")
    if given.defaulting_type not in {"System", "List"}:
        problems.add(where, f"must be System or List, got {given.defaulting_type!r}")
    elif given.defaulting_type == "System" and given.default_constraints:
        text = "must not be System when .defaultConstraints are not empty; write List"
        problems.add(where, text)
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(given.default_constraints):
        where = f"{path}.defaultConstraints[{index}]"
        _check_constraint(constraint, where, problems)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            problems.add(where, f"duplicate {{{pair[0]}, {pair[1]}}}; keep one of them")
        seen.add(pair)


def _check_constraint(given: args.SpreadConstraint, path: str, problems: Problems) -> None:
    if given.max_skew <= 0:
        text = f"not in valid range (0, inf), got {given.max_skew}"
        problems.add(child(path, "maxSkew"), text)
    if not given.topology_key:
        problems.add(child(path, "topologyKey"), "can not be empty")
    elif not is_label_name(given.topology_key):
        text = f"{given.topology_key!r} is no label name such as topology.kubernetes.io/zone"
        problems.add(child(path, "topologyKey"), text)
    if given.when_unsatisfiable not in {"DoNotSchedule", "ScheduleAnyway"}:
        text = f"must be DoNotSchedule or ScheduleAnyway, got {given.when_unsatisfiable!r}"
        problems.add(child(path, "whenUnsatisfiable"), text)
    if given.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        problems.add(child(path, "labelSelector"), text)


def _check_volumes(given: args.VolumeBindingArgs, path: str, problems: Problems) -> None:
    if given.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        problems.add(child(path, "bindTimeoutSeconds"), f"{text}; got {given.bind_timeout_seconds}")
    if given.shape is not None:
        text = "unexpected field `shape`, remove it (it needs StorageCapacityScoring, not here yet)"
        problems.add(child(path, "shape"), text)


def _check_devices(given: args.DynamicResourcesArgs, path: str, problems: Problems) -> None:
    if given.filter_timeout_seconds < 0:
        text = f"must be zero or positive, got {given.filter_timeout_seconds:g}s"
        problems.add(child(path, "filterTimeout"), text)
    if given.binding_timeout_seconds < 1:
        text = f"must be at least 1 second, got {given.binding_timeout_seconds:g}s"
        problems.add(child(path, "bindingTimeout"), text)


_Rule = Callable[[Any, str, Problems], None]

_RULES: Final = cast(
    "Mapping[type, _Rule]",
    {
        args.DefaultPreemptionArgs: _check_preemption,
        args.InterPodAffinityArgs: _check_inter_pod,
        args.NodeResourcesFitArgs: _check_fit,
        args.NodeResourcesBalancedAllocationArgs: _check_balance,
        args.PodTopologySpreadArgs: _check_spread,
        args.VolumeBindingArgs: _check_volumes,
        args.DynamicResourcesArgs: _check_devices,
    },
)
