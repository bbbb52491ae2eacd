"""Default plugins, merging and expansion."""

import pytest

from scheduler.config.configuration import ProfileSpec, SchedulerConfiguration, read
from scheduler.config.default_plugins import UPSTREAM_POINTS, merge
from scheduler.config.document import PluginEntry, PluginSet
from scheduler.config.extension_point import Point
from scheduler.errors import ConfigurationError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

EXPANDED = {
    "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
    "queueSort": "PrioritySort",
    "preFilter": "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits"
    " VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources"
    " NodeDeclaredFeatures",
    "filter": "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit"
    " VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread"
    " InterPodAffinity DynamicResources NodeDeclaredFeatures",
    "postFilter": "DynamicResources DefaultPreemption",
    "preScore": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread"
    " InterPodAffinity NodeResourcesBalancedAllocation",
    "score": "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1"
    " PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2"
    " NodeResourcesBalancedAllocation=1 ImageLocality=1",
    "reserve": "VolumeBinding DynamicResources",
    "permit": "",
    "preBind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "postBind": "",
    "placementGenerate": "",
    "placementScore": "NodeResourcesFit",
}

SMALL = {
    "Sort": frozenset({Point.QUEUE_SORT}),
    "A": frozenset({Point.FILTER, Point.SCORE}),
    "B": frozenset({Point.FILTER, Point.SCORE}),
    "C": frozenset({Point.SCORE}),
    "D": frozenset({Point.FILTER}),
    "E": frozenset({Point.SCORE}),
    "my.module:Plugin": frozenset({Point.SCORE}),
}
"""Plugins of which none is a default one, so that a profile says it all."""


def entries(text: str) -> tuple[PluginEntry, ...]:
    """Read ``A=2 B`` as plugin A of weight 2 and plugin B."""
    parts = [entry.partition("=") for entry in text.split()]
    return tuple(PluginEntry(name, int(weight or 0)) for name, _, weight in parts)


def listed(text: str) -> str:
    return ", ".join(f"{{name: '{e.name}', weight: {e.weight}}}" for e in entries(text))


def profile_text(**points: str) -> str:
    """Write a profile: ``filter="A B"`` enables, ``filter_off="C"`` disables."""
    lines = {}
    for key, names in points.items():
        point, _, off = key.partition("_")
        lines.setdefault(point, []).append(f"{'disabled' if off else 'enabled'}: [{listed(names)}]")
    plugins = ", ".join(f"{point}: {{{', '.join(said)}}}" for point, said in lines.items())
    return f"{HEAD}profiles: [{{plugins: {{{plugins}}}}}]".replace(", weight: 0", "")


def resolve(text: str, available=SMALL) -> SchedulerConfiguration:
    return read(text).resolve(available)


def shown(profile: ProfileSpec, point: Point) -> str:
    return " ".join(f"{r.name}={r.weight}" if r.weight else r.name for r in profile.plugins[point])


def test_default_plugins_expand_as_upstreams_do():
    (profile,) = read().resolve(UPSTREAM_POINTS).profiles

    assert {point.field: shown(profile, point) for point in Point} == EXPANDED


def test_every_plugin_is_to_be_built_once():
    (profile,) = read().resolve(UPSTREAM_POINTS).profiles

    assert sorted(profile.plugin_names) == sorted(UPSTREAM_POINTS)


@pytest.mark.parametrize(
    ("defaults", "enabled", "disabled", "expected"),
    [
        pytest.param("A B C", "", "", "A B C", id="nothing said"),
        pytest.param("A B C", "", "B", "A C", id="disabled"),
        pytest.param("A B C", "", "*", "", id="all disabled"),
        pytest.param("A B C", "D", "", "A B C D", id="appended"),
        pytest.param("A B C", "D", "*", "D", id="replaced altogether"),
        pytest.param("A B C", "B=5", "", "A B=5 C", id="replaced in place"),
        pytest.param("A B=3 C", "B", "", "A B C", id="an absent weight replaces too"),
        pytest.param("A B C", "B D", "B", "A C B D", id="disabled and enabled ends at the end"),
        pytest.param("A B C", "C A", "A C", "B C A", id="reordered"),
        pytest.param("A B", "D D", "", "A B D D", id="duplicates survive"),
        pytest.param(
            "A B", "B=1 B=2", "", "A B=2 B=1", id="the last of duplicates takes the place"
        ),
    ],
)
def test_merging(defaults, enabled, disabled, expected):
    custom = PluginSet(entries(enabled), entries(disabled))

    assert merge(entries(defaults), custom) == entries(expected)


@pytest.mark.parametrize(
    ("said", "point", "expected"),
    [
        pytest.param({"multiPoint": "A B C"}, "score", "A=1 B=1 C=1", id="multipoint"),
        pytest.param({"multiPoint": "A B C"}, "filter", "A B", id="only what serves the point"),
        pytest.param({"multiPoint": "A B", "filter_off": "A"}, "filter", "B", id="off here"),
        pytest.param({"multiPoint": "A B", "filter_off": "A"}, "score", "A=1 B=1", id="on there"),
        pytest.param({"multiPoint": "A B", "score_off": "*", "score": "C"}, "score", "C=1", id="*"),
        pytest.param(
            {"multiPoint": "A B C", "score": "E C"}, "score", "C=1 A=1 B=1 E=1", id="three parts"
        ),
        pytest.param(
            {"multiPoint": "A B C", "score": "C B"}, "score", "C=1 B=1 A=1", id="explicit order"
        ),
        pytest.param(
            {"multiPoint": "A=5 B", "score": "A=7"}, "score", "A=7 B=1", id="score's weight wins"
        ),
        pytest.param(
            {"multiPoint": "A=5 B", "score": "A"}, "score", "A=1 B=1", id="even an absent one"
        ),
        pytest.param({"multiPoint": "A=5"}, "score", "A=5", id="multipoint's weight"),
        pytest.param(
            {"multiPoint": "A B", "score": "A", "score_off": "A"},
            "score",
            "B=1 A=1",
            id="off and on ends at the end",
        ),
        pytest.param({"score": "my.module:Plugin=3"}, "score", "my.module:Plugin=3", id="own"),
    ],
)
def test_expansion(said, point, expected):
    text = profile_text(queueSort="Sort", **said)

    (profile,) = resolve(text).profiles

    assert shown(profile, Point(point)) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"filter": "X"}, 'filter.enabled[0]: FilterPlugin "X" does not exist; check the spelling'),
        ({"multiPoint": "A X"}, 'multiPoint.enabled[1]: Plugin "X" does not exist'),
        (
            {"score": "a.b:C"},
            'score.enabled[0]: ScorePlugin "a.b:C" does not exist; is the module installed',
        ),
        (
            {"filter": "NodePorts"},
            'filter.enabled[0]: FilterPlugin "NodePorts" does not exist; kube-scheduler has it',
        ),
        ({"filter": "C"}, "filter.enabled[0]: plugin 'C' does not extend FilterPlugin plugin"),
        ({"filter": "A A"}, 'filter.enabled[1]: plugin "A" already registered as "FilterPlugin"'),
        ({"multiPoint": "A A"}, 'multiPoint.enabled[1]: plugin "A" already registered as "Filter'),
        ({"filter": "EBSLimits"}, "filter.enabled[0]: EBSLimits was invalid in version"),
        ({"multiPoint": "CinderLimits"}, "multiPoint.enabled[0]: CinderLimits was invalid in"),
        ({"score": "A=-1"}, "score.enabled[0].weight: must not be negative, got -1"),
        (
            {"score": "A=2147483648"},
            "score.enabled[0].weight: must be a whole number of 32 bits, got 2147483648",
        ),
        ({"bind_off": "*"}, "bind: at least one bind plugin is needed for profile with"),
        ({"queueSort": "Sort A"}, "queueSort.enabled: only one queue sort plugin can be enabled"),
    ],
)
def test_plugins_that_cannot_be_had_are_refused(said, expected):
    text = profile_text(**{"queueSort": "Sort", **said})

    with pytest.raises(ConfigurationError) as caught:
        resolve(text)

    assert caught.value.problems[0].startswith(f"profiles[0].plugins.{expected}")


def test_a_queue_sort_plugin_is_needed():
    with pytest.raises(ConfigurationError, match=r"only one queue sort plugin required .* got 0"):
        resolve(profile_text(filter="A"))


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("{queueSort: {enabled: [{name: Sort}]}}", "must be the same for all profiles"),
        ("{multiPoint: {enabled: [{name: Sort}]}}", "different queue sort plugins for profile"),
    ],
)
def test_profiles_share_one_order(second, expected):
    available = UPSTREAM_POINTS | {"Sort": frozenset({Point.QUEUE_SORT})}
    off = "multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: Sort}]}"
    second = second if "queueSort" in second else f"{{{off}}}"

    with pytest.raises(ConfigurationError) as caught:
        resolve(
            f"{HEAD}profiles: [{{schedulerName: a}}, {{schedulerName: b, plugins: {second}}}]",
            available,
        )

    assert any(
        line.startswith("profiles[1].plugins.queueSort: ") and expected in line
        for line in caught.value.problems
    )


def test_profiles_share_the_arguments_of_their_order():
    with pytest.raises(ConfigurationError, match="different queue sort plugin args"):
        resolve(
            f"{HEAD}profiles: [{{schedulerName: a}}, {{schedulerName: b,"
            " pluginConfig: [{name: PrioritySort, args: {a: 1}}]}]",
            UPSTREAM_POINTS,
        )


def test_missing_default_plugins_are_left_out_and_recorded():
    available = {n: p for n, p in UPSTREAM_POINTS.items() if n not in {"NodePorts", "VolumeZone"}}

    found = read().resolve(available)

    assert found.missing_defaults == ("NodePorts", "VolumeZone")
    assert "NodePorts" not in found.profiles[0].plugin_names


def test_a_missing_default_plugin_that_is_disabled_is_not_missed():
    available = {n: p for n, p in UPSTREAM_POINTS.items() if n not in {"NodePorts", "VolumeZone"}}

    found = resolve(profile_text(multiPoint_off="NodePorts"), available)

    assert found.missing_defaults == ("VolumeZone",)


def test_binding_needs_no_plugin_of_the_caller():
    available = {n: p for n, p in UPSTREAM_POINTS.items() if n != "DefaultBinder"}

    (profile,) = read().resolve(available).profiles

    assert shown(profile, Point.BIND) == "DefaultBinder"


def test_a_point_that_a_plugin_does_not_need_here_is_accepted_and_named():
    available = UPSTREAM_POINTS | {"NodeAffinity": frozenset({Point.FILTER, Point.SCORE})}

    found = resolve(profile_text(preScore="NodeAffinity"), available)

    assert found.ignored_fields == ("profiles[0].plugins.preScore.enabled[0] (NodeAffinity)",)


def test_a_draft_tells_which_plugins_it_names():
    text = profile_text(multiPoint="A", score="my.module:Plugin A")

    assert read(text).plugin_names == ("A", "my.module:Plugin")
