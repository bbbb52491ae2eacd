"""A plugin that raises, stalls or answers in the wrong shape never takes the scheduler down."""

import asyncio
import contextlib
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import uvloop

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.binding.binding_plugins import BindingPlugins
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cycle.scheduling import Attempt, decide
from scheduler.errors import MalformedObject, PluginError
from scheduler.framework.cluster_event import Action, ClusterEvent, Requeue
from scheduler.framework.decision import Bind, Park
from scheduler.framework.effects import WaitUntil
from scheduler.framework.filtering import PreFilterResult, filter_nodes
from scheduler.framework.invoke import call_plugin
from scheduler.framework.normalize import PROPORTIONAL
from scheduler.framework.observer import SILENT
from scheduler.framework.profile import Profile, Weighted
from scheduler.framework.rejection import Gate, Rejection
from scheduler.framework.scoring import score_nodes
from scheduler.observe.metrics import Metrics
from scheduler.out_of_tree import stall_timer
from scheduler.out_of_tree.plugin_supervisor import FAILURES_MAXIMUM, PluginSupervisor
from scheduler.out_of_tree.stall_timer import INTERRUPTIBLE, StallTimer
from scheduler.queue.hints import rules_for
from scheduler.reporting.telemetry import Telemetry
from scheduler.testing import make_node, make_pod, make_table
from scheduler.testing.clock import run
from scheduler.testing.harness import Harness, bare_profile, default_profile

# pytest-timeout's alarm and the one under test are the same.
pytestmark = pytest.mark.timeout(60, method="thread")

PACKAGE = Path(stall_timer.__file__).parents[1]
NODES = make_table(make_node("a"), make_node("b"))
PODS = [make_pod(f"pod-{number}") for number in range(5)]


class Recorder:
    """Records what the supervisor reports."""

    def __init__(self):
        self.reported = []

    def plugin_failed(self, plugin, point, error):
        self.reported.append(("failed", plugin, point))

    def plugin_stalled(self, plugin, point, seconds):
        self.reported.append(("stalled", plugin, point))

    def plugin_disabled(self, profile, plugin, why):
        self.reported.append(("disabled", profile, plugin))

    def profile_stopped(self, profile, plugin, why):
        self.reported.append(("stopped", profile, plugin))


class Moody:
    """Calls one function at every extension point."""

    name = "Moody"

    def __init__(self, does=lambda: None):
        self.does = does

    def filter(self, pod, nodes):
        return self.does() or ()

    def score(self, pod, nodes):
        answer = self.does()
        return np.zeros(len(nodes), dtype=np.int64) if answer is None else answer

    def pre_enqueue(self, pod):
        return self.does()


def boom():
    raise RuntimeError("no luck")


def nobody_fits():
    return [Rejection(np.ones(len(NODES), dtype=np.bool_), "no")]


class Supervised:
    """A profile with one out-of-tree plugin, and its supervisor."""

    def __init__(self, plugin, *, out_of_tree=("Moody",), timer=None):
        self.observer = Recorder()
        profile = Profile("p", queue_sort=None, filter=(plugin,), score=(Weighted(plugin, 1),))
        self.supervisor = PluginSupervisor({"p": profile}, {"p": out_of_tree}, self.observer, timer)

    def filter(self, pod=PODS[0]):
        profile = self.supervisor.profile("p")
        watch = self.supervisor.observer_for(profile, pod)
        return filter_nodes(profile, PreFilterResult(), pod, NODES, {}, watch)

    def score(self, pod=PODS[0]):
        profile = self.supervisor.profile("p")
        return score_nodes(profile, pod, NODES, self.supervisor.observer_for(profile, pod))


def test_a_score_plugin_that_keeps_failing_is_disabled():
    supervised = Supervised(Moody(boom))

    for _ in range(3):
        with pytest.raises(PluginError, match="'Moody' raised RuntimeError in Score: no luck"):
            supervised.score()

    assert supervised.observer.reported == [("failed", "Moody", "Score")] * 3 + [
        ("disabled", "p", "Moody")
    ]
    assert supervised.score().by_plugin == ()
    assert not supervised.supervisor.stopped
    assert supervised.supervisor.profile("p").filter


def test_a_success_in_between_clears_the_failures():
    plugin = Moody(boom)
    supervised = Supervised(plugin)

    for does in (boom, boom, lambda: None, boom, boom):
        plugin.does = does
        if does is boom:
            with pytest.raises(PluginError):
                supervised.score()
        else:
            supervised.score()

    assert supervised.supervisor.profile("p").score


def test_a_filter_that_fails_for_three_pods_in_a_row_stops_its_profile():
    supervised = Supervised(Moody(boom))

    for pod in PODS[:3]:
        assert supervised.supervisor.check() is None
        with pytest.raises(PluginError):
            supervised.filter(pod)

    assert supervised.observer.reported[-1] == ("stopped", "p", "Moody")
    assert supervised.supervisor.check() == (
        "profile p is stopped, since plugin 'Moody' raised RuntimeError in Filter: no luck; "
        "correct plugin Moody and restart the scheduler, or disable it"
    )


def test_one_pod_alone_stops_no_profile():
    supervised = Supervised(Moody(boom))

    for _ in range(10):
        with pytest.raises(PluginError):
            supervised.filter(PODS[0])

    assert not supervised.supervisor.stopped


def test_the_number_of_failures_kept_is_bounded():
    """The gates of a stopped profile are called for every new pod."""
    profile = Profile("p", queue_sort=None)
    supervisor = PluginSupervisor({"p": profile}, {"p": ["Moody"]}, Recorder())
    for number in range(1000):
        pod, error = make_pod(f"p{number}"), PluginError("Moody", "no")
        supervisor.failed(profile, "Moody", "PreEnqueue", pod, error)

    assert list(supervisor.stopped) == ["p"]
    assert [len(uids) for uids in supervisor._failures.values()] == [FAILURES_MAXIMUM]


def test_a_pod_that_cannot_be_read_is_no_failure_of_the_plugin():
    def unreadable():
        raise MalformedObject("spec", "unreadable")

    supervised = Supervised(Moody(unreadable))

    for pod in PODS:
        with pytest.raises(PluginError):
            supervised.filter(pod)

    assert not supervised.observer.reported


def test_failures_of_in_tree_plugins_are_not_counted():
    supervised = Supervised(Moody(boom), out_of_tree=("Another",))

    for pod in PODS:
        with pytest.raises(PluginError):
            supervised.filter(pod)

    assert not supervised.observer.reported


WRONG = {
    "a list": [1, 2],
    "too short": np.zeros(1, dtype=np.int64),
    "floats": np.zeros(2),
    "out of range": np.full(2, 101, dtype=np.int64),
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_scores_in_the_wrong_shape_count_as_failures(answer):
    supervised = Supervised(Moody(lambda: answer))

    for _ in range(3):
        with pytest.raises(PluginError):
            supervised.score()

    assert supervised.observer.reported[-1] == ("disabled", "p", "Moody")


def test_a_failure_to_normalize_counts_as_well():
    plugin = Moody()
    plugin.normalize = lambda raw, pod, nodes: raw / 0.5
    supervised = Supervised(plugin)

    for _ in range(3):
        with pytest.raises(PluginError, match="scored in float64, not in int64"):
            supervised.score()

    assert supervised.observer.reported[-1] == ("disabled", "p", "Moody")
    assert PROPORTIONAL(np.array([1, 2]), PODS[0], NODES).tolist() == [50, 100]


@pytest.mark.parametrize("answers", [3, ["no rejection"], [Rejection(np.ones(2), "floats")]])
def test_filters_in_the_wrong_shape_count_as_failures(answers):
    supervised = Supervised(Moody(lambda: answers))

    with pytest.raises(PluginError):
        supervised.filter()

    assert supervised.observer.reported == [("failed", "Moody", "Filter")]


# Stalls.


@pytest.fixture
def timer():
    """A timer of 50 ms that handles the alarm signal."""
    before = signal.getsignal(signal.SIGALRM)
    timer = StallTimer(0.05)
    timer.install()
    yield timer
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


OWN_SECONDS = 30
"""How long a stall takes that is not interrupted."""


def spin():
    until = time.monotonic() + OWN_SECONDS
    while time.monotonic() < until:
        pass


def spin_on_exceptions():
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(Exception):  # as careless code does
            spin()


def spin_in_a_bare_except():
    with contextlib.suppress(BaseException):  # as more careless code does
        spin()
    spin()


def sleep():
    # The stall itself, in a call that blocks. It is cut short; if it were not, an endless one would
    # hang the tests, since their own time limit needs the timer that is tested.
    time.sleep(OWN_SECONDS)


@pytest.mark.parametrize("does", [spin, spin_on_exceptions, spin_in_a_bare_except, sleep])
def test_a_stall_is_interrupted(timer, does):
    supervised = Supervised(Moody(does), timer=timer)
    started = time.monotonic()

    with pytest.raises(
        PluginError, match=r"'Moody' stalled: it gave no answer in Filter for 0.05s"
    ):
        supervised.filter()

    assert time.monotonic() - started < OWN_SECONDS
    assert supervised.observer.reported == [
        ("stalled", "Moody", "Filter"),
        ("failed", "Moody", "Filter"),
    ]
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_stall_is_interrupted_under_uvloop(timer):
    supervised = Supervised(Moody(spin), timer=timer)

    async def main():
        ticking = asyncio.create_task(asyncio.sleep(0.2))
        for _ in range(3):
            with pytest.raises(PluginError, match="stalled"):
                supervised.filter()
            await asyncio.sleep(0)
        await ticking
        return "alive"

    assert uvloop.run(main()) == "alive"


def test_a_quick_plugin_is_not_interrupted(timer):
    timer.seconds = 60.0  # a busy machine may well hold this process up for 50 ms
    supervised = Supervised(Moody(), timer=timer)

    for _ in range(200):
        supervised.filter()

    assert not supervised.observer.reported
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_the_innermost_plugin_is_to_blame(timer):
    """An out-of-tree PostFilter plugin calls out-of-tree filters again."""
    observer = Recorder()
    supervisor = PluginSupervisor({}, {"p": {"Outer", "Inner"}}, observer, timer)
    profile = Profile("p", queue_sort=None)
    watch = supervisor.observer_for(profile, PODS[0])

    def outer():
        with pytest.raises(PluginError, match="'Inner' stalled"):
            call_plugin("Filter", "Inner", watch, spin)
        return "went on"

    assert call_plugin("PostFilter", "Outer", watch, outer) == "went on"
    assert [each[:2] for each in observer.reported] == [("stalled", "Inner"), ("failed", "Inner")]


def test_a_stall_in_preemption_is_interrupted(timer):
    asked = []

    def refuse_then_spin():
        asked.append(1)
        return spin() if len(asked) > 1 else True

    class Hesitant(Moody):
        def filter(self, pod, nodes):
            self.does()
            return [Rejection(np.ones(len(nodes), dtype=np.bool_), "no")]

    observer, profile = Recorder(), default_profile(Hesitant(refuse_then_spin))
    name = profile.scheduler_name
    supervisor = PluginSupervisor({name: profile}, {name: {"Moody"}}, observer, timer)
    pod = make_pod("urgent", priority=5)
    nodes = make_table(make_node("a"), placed=[make_pod("low").on("a")])

    supervised = supervisor.observer_for(profile, pod)
    decision = decide(Attempt(profile, pod, nodes, {}, observer=supervised))

    assert len(asked) == 2
    assert ("stalled", "Moody", "Filter") in observer.reported
    assert "plugin 'Moody' stalled" in decision.message


class Stalls:
    """A PostFilter plugin that stalls: at once, or after a pause."""

    name = "Stalls"

    def __init__(self, pauses):
        self.pauses = pauses

    def post_filter(self, pod, nodes, diagnosis, ask):
        return self.search() if self.pauses else spin()

    def search(self):
        yield
        spin()


@pytest.mark.parametrize("pauses", [False, True])
def test_a_stall_in_post_filter_is_interrupted(timer, pauses):
    observer, profile = Recorder(), bare_profile(Moody(nobody_fits), Stalls(pauses))
    name = profile.scheduler_name
    supervisor = PluginSupervisor({name: profile}, {name: {"Stalls"}}, observer, timer)

    watch = supervisor.observer_for(profile, PODS[0])
    decision = decide(Attempt(profile, PODS[0], NODES, {}, observer=watch))

    assert ("stalled", "Stalls", "PostFilter") in observer.reported
    assert isinstance(decision, Park)


def test_rooms_that_may_be_interrupted_exist():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert rooms >= INTERRUPTIBLE


class Searches:
    """A PostFilter plugin that pauses well, and then fails."""

    name = "Searches"

    def post_filter(self, pod, nodes, diagnosis, ask):
        yield
        boom()


def test_a_search_that_pauses_and_then_fails_has_not_succeeded():
    observer, plugin = Recorder(), Searches()
    profile = bare_profile(Moody(nobody_fits), plugin)
    name = profile.scheduler_name
    supervisor = PluginSupervisor({name: profile}, {name: {"Searches"}}, observer)

    for pod in PODS[:3]:
        decide(Attempt(profile, pod, NODES, {}, observer=supervisor.observer_for(profile, pod)))

    assert observer.reported[-1] == ("stopped", name, "Searches")


@pytest.mark.parametrize("package", ["scheduler.snapshot", "scheduler.a_room_added_later"])
def test_our_own_code_is_not_left_half_way(timer, package):
    """The alarm is postponed while the plugin has called our code, until that returns."""
    reached = []

    def reads():
        namespace = {"__package__": package}
        code = (
            "import time\n"
            "def build():\n"
            "    until = time.monotonic() + 0.2\n"
            "    while time.monotonic() < until:\n"
            "        pass\n"
        )
        exec(code, namespace)
        namespace["build"]()
        reached.append("plugin")
        spin()

    supervised = Supervised(Moody(reads), timer=timer)
    with pytest.raises(PluginError, match="stalled"):
        supervised.filter()
    assert reached == ["plugin"]


def test_code_of_ours_without_state_may_be_interrupted(timer):
    namespace = {"__package__": "scheduler.framework", "spin": spin}
    exec("def loop():\n    spin()\n", namespace)
    supervised = Supervised(Moody(namespace["loop"]), timer=timer)

    with pytest.raises(PluginError, match="stalled"):
        supervised.filter()


def test_without_a_limit_nothing_is_interrupted():
    before = signal.getsignal(signal.SIGALRM)
    timer = StallTimer(0)
    timer.install()

    Supervised(Moody(), timer=timer).filter()

    assert signal.getsignal(signal.SIGALRM) is before


# Gates and hints.


def test_gates_and_hints_are_supervised(timer):
    class Gatekeeper(Moody):
        requeue_on = (
            Requeue(ClusterEvent("Node", Action.ADD), lambda pod, change: boom()),
            Requeue(ClusterEvent("Node", Action.DELETE)),
        )

    plugin = Gatekeeper(spin)
    observer = Recorder()
    profile = Profile("p", queue_sort=None, pre_enqueue=(plugin,))
    supervisor = PluginSupervisor({"p": profile}, {"p": {"Moody"}}, observer, timer)
    rules = supervisor.rules(profile, rules_for(profile.plugins))
    (gate,) = rules.gates

    with pytest.raises(PluginError, match="stalled"):
        gate.pre_enqueue(PODS[0])
    plugin.does = lambda: Gate("not yet")
    assert (gate.name, gate.pre_enqueue(PODS[0])) == ("Moody", Gate("not yet"))
    hints = [each.hint for each in rules.requeue["Moody"]]
    with pytest.raises(PluginError, match="in QueueingHint: no luck"):
        hints[0](PODS[0], None)
    assert hints[1] is None
    for pod in PODS:
        with pytest.raises(PluginError):
            hints[0](pod, None)
    assert not supervisor.stopped


def test_rules_of_in_tree_plugins_are_unchanged():
    plugin = Moody()
    profile = Profile("p", queue_sort=None, pre_enqueue=(plugin,))
    supervisor = PluginSupervisor({"p": profile}, {}, Recorder())

    assert supervisor.rules(profile, rules_for(profile.plugins)).gates == [plugin]
    assert supervisor.observer_for(profile, PODS[0], SILENT) is SILENT


# In the whole scheduler.


async def simulated(*profiles):
    """Give each of *profiles* five pods, and return where they went after a while."""
    pods = {
        profile.scheduler_name: [
            make_pod(f"{profile.scheduler_name}-{n}", scheduler=profile.scheduler_name)
            for n in range(5)
        ]
        for profile in profiles
    }
    async with Harness(profiles=profiles) as cluster:
        cluster.create(make_node("a"), make_node("b"))
        for each in pods.values():
            cluster.create(*each)
        await cluster.settle(120)
        told = {name: [cluster.condition(pod) for pod in each] for name, each in pods.items()}
        bound = {
            name: sum(bool(cluster.node_of(pod)) for pod in each) for name, each in pods.items()
        }
        return bound, told, cluster.core.supervisor


def of_name(name, *plugins):
    return replace(default_profile(*plugins), scheduler_name=name)


class Scores:
    name = "Scores"

    def score(self, pod, nodes):
        raise RuntimeError("no luck")


class Filters:
    name = "Filters"

    def filter(self, pod, nodes):
        raise RuntimeError("no luck")


def test_pods_are_bound_without_a_score_plugin_that_keeps_failing():
    bound, _, supervisor = run(simulated(of_name("one", Scores())))

    assert bound == {"one": 5}
    assert "Scores" not in {each.plugin.name for each in supervisor.profile("one").score}


def test_a_stopped_profile_says_why_and_others_go_on():
    bound, told, supervisor = run(simulated(of_name("one", Filters()), of_name("two")))

    assert bound == {"one": 0, "two": 5}
    assert list(supervisor.stopped) == ["one"]
    assert supervisor.check() == supervisor.stopped["one"]
    assert {each[1] for each in told["one"]} == {"SchedulerError"}
    assert {each[2] for each in told["one"]} == {supervisor.stopped["one"]}


def test_a_stall_after_the_decision_is_interrupted(timer):
    """Each room between call_plugin and the plugin must be one that may be interrupted."""
    stalling = type(
        "Moody",
        (),
        {
            "name": "Moody",
            "reserve": lambda *_: spin(),
            "unreserve": lambda *_: spin(),
            "permit": lambda *_: spin(),
            "pre_bind": lambda *_: (spin() for _ in "x"),
        },
    )()
    observer = Recorder()
    several = (stalling,)
    profile = Profile("p", queue_sort=None, reserve=several, permit=several, pre_bind=several)
    cache = ClusterCache()
    cache.add_node(make_node("a"))
    supervisor = PluginSupervisor({"p": profile}, {"p": {"Moody"}}, observer, timer)
    plugins = BindingPlugins(cache, Telemetry(Metrics()), supervisor)
    placement = BindingAttempt(None, profile, PODS[0], Bind(PODS[0], "a", 1, 1), 0.0, None)

    with pytest.raises(PluginError, match="stalled: it gave no answer in Reserve"):
        plugins.reserve(placement)
    with pytest.raises(PluginError, match="stalled: it gave no answer in Permit"):
        plugins.permit(placement, ())
    with pytest.raises(PluginError, match="stalled: it gave no answer in PreBind"):
        plugins.effects(stalling, placement)
    placement.end()
    plugins.unreserve(placement)
    assert observer.reported.count(("stalled", "Moody", "Unreserve")) == 1


def test_a_stall_in_a_condition_is_interrupted(timer):
    wait = WaitUntil(lambda nodes: spin(), 5, "it")
    plugin = type("Moody", (), {"name": "Moody", "pre_bind": lambda *_: [wait]})()
    profile = Profile("p", queue_sort=None, pre_bind=(plugin,))
    supervisor = PluginSupervisor({"p": profile}, {"p": {"Moody"}}, Recorder(), timer)
    plugins = BindingPlugins(ClusterCache(), Telemetry(Metrics()), supervisor)
    placement = BindingAttempt(None, profile, PODS[0], Bind(PODS[0], "a", 1, 1), 0.0, None)

    (effect,) = plugins.effects(plugin, placement)

    with pytest.raises(PluginError, match="stalled: it gave no answer in PreBind"):
        effect.condition(NODES)
