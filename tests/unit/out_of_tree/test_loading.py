"""Out-of-tree plugins: found by name, rejected in one line with plugin, module and remedy."""

import sys
from importlib.metadata import EntryPoint

import pytest

from scheduler.config.configuration import read
from scheduler.errors import ConfigurationError
from scheduler.framework.profile import needs_of_all
from scheduler.out_of_tree import loading
from scheduler.out_of_tree.loading import build_profiles, load, out_of_tree_plugins

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

MODULE = '''
"""Plugins of all sorts."""

import numpy as np


class Good:
    name = "Good"
    needs = {"node.annotations", "gauges.v1.example.com"}

    def __init__(self, points=1, colour="red"):
        self.points = points

    def score(self, pod, nodes):
        return np.full(len(nodes), self.points, dtype=np.int64)


class Nameless:
    def score(self, pod, nodes):
        return None


class Numbered(Good):
    name = 7


class Impostor(Good):
    name = "NodeName"


class Greedy(Good):
    name = "Greedy"
    needs = {"everything"}


class Idle:
    name = "Idle"


class PerNode:
    name = "PerNode"

    def filter_node(self, pod, node):
        return None


class Broken(Good):
    name = "Broken"

    def __init__(self):
        raise RuntimeError("no luck")


class Slow(Good):
    name = "Slow"

    async def score(self, pod, nodes):
        return None


class Acts(Good):
    name = "Acts"

    async def pre_bind(self, pod, node, nodes):
        return None


class Binds(Good):
    name = "Binds"

    def bind(self, pod, node):
        pass


class Reserves:
    name = "Reserves"

    def reserve(self, pod, node, nodes):
        return None


class OneText(Good):
    name = "OneText"
    needs = "node.annotations"


class Woken(Good):
    name = "Woken"
    requeue_on = ("Node",)


class Leaves(Good):
    name = "Leaves"

    def __init__(self):
        raise SystemExit(3)


function = len
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of plugins on the path, and its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "home_made.py").write_text(MODULE)
    (tmp_path / "explosive.py").write_text("raise RuntimeError('boom\\nand more')\n")
    (tmp_path / "script.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "incomplete.py").write_text("import not_there_at_all\n")
    yield "home_made"
    for name in ("home_made", "explosive", "script", "incomplete"):
        sys.modules.pop(name, None)


def draft(*names, args=None):
    text = HEAD + "profiles:\n- plugins:\n    multiPoint:\n      enabled:\n"
    text += "".join(f"      - name: {name}\n" for name in names)
    if args is not None:
        text += f"  pluginConfig:\n  - name: {names[0]}\n    args: {args}\n"
    return read(text)


def refusal(*names, args=None):
    with pytest.raises(ConfigurationError) as caught:
        build_profiles(draft(*names, args=args))
    assert all("\n" not in line for line in caught.value.problems)
    return "\n".join(caught.value.problems)


def offers(monkeypatch, *entries):
    found = [EntryPoint(name, value, "scheduler.plugins") for name, value in entries]
    monkeypatch.setattr(loading, "entry_points", lambda group: found)


def test_a_class_can_be_named_directly(module):
    _, profiles = build_profiles(draft(f"{module}:Good", args="{points: 5}"))

    profile = profiles["py-scheduler"]
    (mine,) = (each.plugin for each in profile.score if each.plugin.name == "Good")
    assert mine.points == 5
    assert out_of_tree_plugins(profile) == {"Good"}


def test_an_installed_package_offers_a_plugin_by_name(module, monkeypatch):
    offers(monkeypatch, ("Good", "home_made:Good"))

    _, profiles = build_profiles(draft("Good"))

    assert "Good" in {each.plugin.name for each in profiles["py-scheduler"].score}
    assert {"node.annotations", "gauges.v1.example.com"} <= needs_of_all(profiles.values())


def test_what_no_profile_enables_is_not_imported(module, monkeypatch):
    offers(monkeypatch, ("Good", "home_made:Good"), ("Bomb", "explosive:Bomb"))

    build_profiles(draft("Good"))

    assert "explosive" not in sys.modules


def test_an_in_tree_plugin_cannot_be_replaced_by_its_name(monkeypatch):
    offers(monkeypatch, ("NodeName", "explosive:Bomb"))

    assert load(["NodeName"]) == {}


def test_only_pre_bind_may_be_asynchronous(module):
    _, profiles = build_profiles(draft("home_made:Acts"))

    assert "Acts" in {each.name for each in profiles["py-scheduler"].pre_bind}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("not_there_at_all:X", "plugin not_there_at_all:X: there is no module not_there_at_all; "),
        ("incomplete:X", "plugin incomplete:X: there is no module not_there_at_all; install it"),
        ("explosive:X", "plugin explosive:X: importing module explosive raised RuntimeError: boom"),
        ("home_made:Missing", "module home_made has no Missing; name a class as module:Class"),
        ("home_made:function", "module home_made holds no class function; name a class"),
        ("home_made:Idle", "class Idle serves no extension point; give it filter, score"),
        ("home_made:PerNode", "serves no extension point; decorate it with @scheduler.per_node"),
        ("home_made:Nameless", "plugin home_made:Nameless: has no name; write name ="),
        ("home_made:Numbered", 'its name must be text; write name = "Numbered"'),
        ("home_made:Impostor", "another plugin is named NodeName; give it a name of its own"),
        (
            "home_made:Greedy",
            "plugin Greedy (home_made:Greedy): needs 'everything', which is unknown",
        ),
        ("home_made:Broken", "initializing plugin 'home_made:Broken': no luck"),
        ("home_made:Leaves", "initializing plugin 'home_made:Leaves': 3"),
        ("home_made:Slow", "score is async; plugins decide in plain functions"),
        ("home_made:Binds", "bind would never be called: the scheduler binds, or an extender does"),
        ("home_made:Reserves", "class Reserves has reserve and no unreserve; write one"),
        (
            "home_made:OneText",
            "plugin OneText (home_made:OneText): needs is one text; write a list",
        ),
        ("home_made:Woken", "requeue_on must hold nothing but Requeue(ClusterEvent(...))"),
        ("script:X", "plugin script:X: importing module script raised SystemExit: 3"),
        ("Unheard", 'Plugin "Unheard" does not exist; check the spelling, or install'),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(module, name, says):
    assert says in refusal(name)


def test_arguments_that_the_constructor_does_not_take_are_named(module):
    said = refusal(f"{module}:Good", args="{weight: 5}")

    assert said.startswith("profiles[0].pluginConfig[0].args: ")
    assert "initializing plugin 'home_made:Good'" in said
    assert "unexpected keyword argument 'weight'" in said


def test_two_packages_that_claim_one_name_are_both_named(module, monkeypatch):
    offers(monkeypatch, ("Good", "home_made:Good"), ("Good", "explosive:Good"))

    assert "plugin Good: explosive:Good and home_made:Good both claim the name" in refusal("Good")


def test_all_problems_are_reported_together(module):
    said = refusal("home_made:Missing", "not_there_at_all:X")

    assert len(said.splitlines()) == 2


def test_a_default_profile_has_no_out_of_tree_plugins():
    _, profiles = build_profiles(read(None))

    assert not out_of_tree_plugins(profiles["py-scheduler"])
