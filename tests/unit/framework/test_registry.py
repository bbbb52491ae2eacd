"""Profiles are built from a specification; errors name the plugin."""

import pytest

from scheduler.config.configuration import ProfileSpec
from scheduler.config.expansion import PluginRef
from scheduler.config.extension_point import Point
from scheduler.errors import ConfigurationError
from scheduler.framework.registry import Registry, points_of


class Sorts:
    name = "Sorts"

    def sort_key(self, pod):
        return 0


class Filters:
    name = "Filters"

    def __init__(self, limit=1):
        self.limit = limit

    def filter(self, pod, nodes):
        return ()

    def score(self, pod, nodes):
        return None


class Refuses:
    name = "Refuses"

    def __init__(self, args=None):
        if args == "bad":
            raise ConfigurationError("limit: must be positive", "name: must be given")
        raise ValueError("no licence")

    def filter(self, pod, nodes):
        return ()


REGISTRY = Registry({plugin.name: plugin for plugin in (Sorts, Filters, Refuses)})


def spec(args=None, *, filters=("Filters",), weight=0):
    return ProfileSpec(
        "mine",
        {
            Point.QUEUE_SORT: (PluginRef("Sorts"),),
            Point.FILTER: tuple(PluginRef(name) for name in filters),
            Point.SCORE: (PluginRef("Filters", weight),) if "Filters" in filters else (),
        },
        args or {},
        percentage_of_nodes_to_score=30,
    )


def test_a_plugin_is_made_once_and_stands_at_all_its_points():
    profile = REGISTRY.build(spec(weight=7), generation=3)

    assert profile.scheduler_name == "mine"
    assert profile.filter[0] is profile.score[0].plugin
    assert profile.score[0].weight == 7
    assert [plugin.name for plugin in profile.plugins] == ["Sorts", "Filters"]
    assert (profile.percentage_of_nodes_to_score, profile.generation) == (30, 3)


def test_an_absent_weight_is_1():
    assert REGISTRY.build(spec()).score[0].weight == 1


def test_arguments_are_passed_by_name_or_as_one_value():
    assert REGISTRY.build(spec({"Filters": {"limit": 5}})).filter[0].limit == 5
    assert REGISTRY.build(spec({"Filters": 6})).filter[0].limit == 6


@pytest.mark.parametrize(
    ("args", "problems"),
    [
        (
            {"Refuses": "bad"},
            ("profile mine: limit: must be positive", "profile mine: name: must be given"),
        ),
        ({}, ("profile mine: initializing plugin 'Refuses': no licence",)),
    ],
)
def test_a_plugin_that_cannot_be_made_is_named(args, problems):
    with pytest.raises(ConfigurationError) as caught:
        REGISTRY.build(spec(args, filters=("Refuses",)))

    assert caught.value.problems == problems


def test_arguments_nobody_takes_are_a_problem_of_the_configuration():
    with pytest.raises(ConfigurationError, match="initializing plugin 'Filters'"):
        REGISTRY.build(spec({"Filters": {"unknown": 1}}))


def test_a_name_can_be_taken_once():
    more = REGISTRY.with_plugins({"More": Filters})
    assert set(more.available) == {"Sorts", "Filters", "Refuses", "More"}

    with pytest.raises(ConfigurationError, match="a plugin named Sorts already exists"):
        REGISTRY.with_plugins({"Sorts": Sorts})


def test_points_follow_from_methods():
    assert points_of(Filters) == {Point.FILTER, Point.SCORE, Point.PRE_SCORE}
    assert points_of(Sorts) == {Point.QUEUE_SORT}
