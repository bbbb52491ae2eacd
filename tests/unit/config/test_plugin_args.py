"""Arguments of plugins: defaults and rules."""

import pytest

from scheduler.config import plugin_args as args
from scheduler.config.configuration import read
from scheduler.config.default_plugins import UPSTREAM_POINTS
from scheduler.errors import ConfigurationError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def args_of(plugin: str, written: str):
    text = f"{HEAD}profiles: [{{pluginConfig: [{{name: {plugin}, args: {written}}}]}}]"
    return read(text).resolve(UPSTREAM_POINTS).profiles[0].args[plugin]


@pytest.mark.parametrize("plugin", args.TYPED)
def test_every_enabled_plugin_has_its_default_arguments(plugin):
    (profile,) = read().resolve(UPSTREAM_POINTS).profiles

    assert profile.args[plugin] == args.TYPED[plugin]()
    assert args_of(plugin, "{}") == args.TYPED[plugin]()
    assert list(profile.args) == sorted(profile.args)


def test_defaults_are_upstreams():
    assert args.DefaultPreemptionArgs() == args.DefaultPreemptionArgs(10, 100)
    assert args.InterPodAffinityArgs() == args.InterPodAffinityArgs(1, False)
    assert args.NodeAffinityArgs().added_affinity is None
    assert args.NodeResourcesFitArgs().scoring_strategy.type == "LeastAllocated"
    assert args.NodeResourcesFitArgs().scoring_strategy.resources == (
        args.ResourceSpec("cpu", 1),
        args.ResourceSpec("memory", 1),
    )
    assert args.PodTopologySpreadArgs().defaulting_type == "System"
    assert args.VolumeBindingArgs().bind_timeout_seconds == 600
    assert args.DynamicResourcesArgs() == args.DynamicResourcesArgs(10, 600)


def test_a_partial_struct_keeps_the_other_defaults():
    assert args_of("DefaultPreemption", "{minCandidateNodesPercentage: 0}") == (
        args.DefaultPreemptionArgs(0, 100)
    )


def test_pods_of_other_schedulers_may_be_evicted_unless_a_document_says_otherwise():
    assert args_of("DefaultPreemption", "{}").preempt_foreign_pods
    assert not args_of("DefaultPreemption", "{preemptForeignPods: false}").preempt_foreign_pods


def test_an_empty_list_of_resources_and_a_zero_weight_mean_the_default():
    empty = args_of("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated, resources: []}}")
    weightless = args_of(
        "NodeResourcesFit",
        "{scoringStrategy: {type: LeastAllocated, resources: [{name: a.b/c, weight: 0}]}}",
    )

    assert empty.scoring_strategy == args.ScoringStrategy("MostAllocated")
    assert weightless.scoring_strategy.resources == (args.ResourceSpec("a.b/c", 1),)


def test_affinity_and_arguments_of_other_plugins_stay_as_written():
    term = "{nodeSelectorTerms: [{matchExpressions: []}]}"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    added = args_of("NodeAffinity", f"{{addedAffinity: {{{required}: {term}}}}}")

    assert added.added_affinity[required] == {
        "nodeSelectorTerms": [{"matchExpressions": [], "matchFields": []}]
    }
    assert args_of("Mine", "{a: {b: [1, x]}}") == {"a": {"b": [1, "x"]}}


def test_a_type_may_be_written_if_it_is_the_right_one():
    written = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: VolumeBindingArgs}"

    assert args_of("VolumeBinding", written) == args.VolumeBindingArgs()


def test_durations_are_read():
    found = args_of("DynamicResources", "{filterTimeout: 0s, bindingTimeout: 1m}")

    assert found == args.DynamicResourcesArgs(0, 60)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CONSTRAINT = "{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}"
RATIO = "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "


@pytest.mark.parametrize(
    ("plugin", "written", "expected"),
    [
        ("VolumeBinding", "{kind: NodeNameArgs}", "kind: has to match plugin args"),
        ("VolumeBinding", "{apiVersion: v1}", "apiVersion: has to match plugin args"),
        ("VolumeBinding", "{x: 1}", "x: unknown field; there are bindTimeoutSeconds, shape"),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 101}",
            "minCandidateNodesPercentage: not in valid range [0, 100]",
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesAbsolute: -1}",
            "minCandidateNodesAbsolute: not in valid range [0, inf)",
        ),
        (
            "DefaultPreemption",
            "{preemptForeignPods: never}",
            "preemptForeignPods: must be true or false, got 'never'",
        ),
        (
            "DefaultPreemption",
            "{preemptForeignPod: false}",
            "preemptForeignPod: unknown field; did you mean preemptForeignPods?",
        ),
        (
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            "hardPodAffinityWeight: not in valid range [0, 100]",
        ),
        (
            "NodeResourcesFit",
            "{ignoredResources: [a/b/c]}",
            "ignoredResources[0]: 'a/b/c' is no resource name",
        ),
        (
            "NodeResourcesFit",
            "{ignoredResourceGroups: [a/b]}",
            "ignoredResourceGroups[0]: resource group name can't contain '/'",
        ),
        (
            "NodeResourcesFit",
            "{ignoredResourceGroups: ['a b']}",
            "ignoredResourceGroups[0]: 'a b' is no resource group",
        ),
        ("NodeResourcesFit", "{scoringStrategy: {}}", "scoringStrategy.type: must be one of"),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, resources: [{name: a b}]}}",
            "scoringStrategy.resources[0].name: 'a b' is no resource name such as cpu",
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesAbsolute: 2147483648}",
            "minCandidateNodesAbsolute: must be a whole number of 32 bits",
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {required: {}}}",
            "addedAffinity.required: unknown field; there are preferredDuringSchedulingIgnored",
        ),
        (
            "NodeAffinity",
            f"{{addedAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchExpression: []}}]}}}}}}",
            f"addedAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpression: unknown field; did",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: Best}}",
            "scoringStrategy.type: must be one of LeastAllocated, MostAllocated, Requ",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}",
            "scoringStrategy.resources[0].weight: resource weight of cpu not in valid range (0, 1",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            "scoringStrategy.requestedToCapacityRatio: must be specified when type is Requested",
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
            "scoringStrategy.requestedToCapacityRatio: must be nil when type is not Requested",
        ),
        (
            "NodeResourcesFit",
            f"{{{RATIO}{{shape: []}}}}}}",
            "scoringStrategy.requestedToCapacityRatio.shape: at least one point must be specified",
        ),
        (
            "NodeResourcesFit",
            f"{{{RATIO}{{shape: [{{utilization: 9, score: 1}}, {{utilization: 9}}]}}}}}}",
            "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: values must be sorted",
        ),
        (
            "NodeResourcesFit",
            f"{{{RATIO}{{shape: [{{score: 11}}]}}}}}}",
            "scoringStrategy.requestedToCapacityRatio.shape[0].score: not in valid range [0, 10]",
        ),
        (
            "NodeResourcesFit",
            f"{{{RATIO}{{shape: [{{utilization: 101}}]}}}}}}",
            "scoringStrategy.requestedToCapacityRatio.shape[0].utilization: not in valid range",
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 2}]}",
            "resources[0].weight: must be 1, got 2",
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu}, {name: cpu}]}",
            "resources[1].name: duplicate cpu",
        ),
        ("PodTopologySpread", "{defaultingType: X}", "defaultingType: must be System or List"),
        (
            "PodTopologySpread",
            f"{{defaultConstraints: [{CONSTRAINT}]}}",
            "defaultingType: must not be System when .defaultConstraints are not empty",
        ),
        ("VolumeBinding", "{bindTimeoutSeconds: -1}", "bindTimeoutSeconds: invalid BindTimeoutSec"),
        ("VolumeBinding", "{shape: []}", "shape: unexpected field `shape`, remove it"),
        ("DynamicResources", "{filterTimeout: -1s}", "filterTimeout: must be zero or positive"),
        ("DynamicResources", "{bindingTimeout: 1ms}", "bindingTimeout: must be at least 1 second"),
    ],
)
def test_rules(plugin, written, expected):
    with pytest.raises(ConfigurationError) as caught:
        args_of(plugin, written)

    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(f"profiles[0].pluginConfig[0].args.{expected}")


def test_both_numbers_of_candidates_are_blamed_where_there_would_be_none():
    with pytest.raises(ConfigurationError) as caught:
        args_of(
            "DefaultPreemption", "{minCandidateNodesAbsolute: 0, minCandidateNodesPercentage: 0}"
        )

    percentage, absolute = caught.value.problems
    assert "args.minCandidateNodesPercentage: cannot be zero at the same time" in percentage
    assert "args.minCandidateNodesAbsolute: cannot be zero at the same time" in absolute


def test_the_type_may_be_left_empty():
    assert args_of("VolumeBinding", "{kind: '', apiVersion: null}") == args.VolumeBindingArgs()


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule", "maxSkew: not in valid"),
        ("maxSkew: 1, whenUnsatisfiable: DoNotSchedule", "topologyKey: can not be empty"),
        (
            "maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: DoNotSchedule",
            "topologyKey: 'a b' is no label name",
        ),
        ("maxSkew: 1, topologyKey: a", "whenUnsatisfiable: must be DoNotSchedule or ScheduleAny"),
        (
            "maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}",
            "labelSelector: constraint must not define a selector",
        ),
    ],
)
def test_rules_of_default_spread_constraints(constraint, expected):
    with pytest.raises(ConfigurationError) as caught:
        args_of(
            "PodTopologySpread", f"{{defaultingType: List, defaultConstraints: [{{{constraint}}}]}}"
        )

    (problem,) = caught.value.problems
    assert problem.startswith(f"profiles[0].pluginConfig[0].args.defaultConstraints[0].{expected}")


def test_default_spread_constraints_are_distinct():
    one = "{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}"

    with pytest.raises(ConfigurationError, match=r"duplicate {a, ScheduleAnyway}"):
        args_of(
            "PodTopologySpread", f"{{defaultingType: List, defaultConstraints: [{one}, {one}]}}"
        )
