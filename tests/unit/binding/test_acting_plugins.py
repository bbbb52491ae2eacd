"""An asynchronous ``pre_bind`` of a plugin by a user acts before the pod is bound."""

import asyncio
import signal

import pytest

from scheduler.errors import PluginError
from scheduler.framework.effects import PostBinding
from scheduler.framework.invoke import CoroutineCall
from scheduler.framework.observer import SILENT
from scheduler.framework.profile import Profile
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.out_of_tree.stall_timer import StallTimer
from scheduler.testing import make_node, make_pod
from scheduler.testing.clock import run
from scheduler.testing.harness import Harness
from tests.unit.out_of_tree.test_plugin_supervisor import Recorder, spin

POD = make_pod("web")


class Acts:
    """Does what it is told to, and remembers for whom."""

    name = "Acts"

    def __init__(self, act, seconds=60.0):
        self.act = act
        self.pre_bind_seconds = seconds
        self.asked = []

    async def pre_bind(self, pod, node, nodes):
        self.asked.append((pod.name, node, len(nodes)))
        return await self.act()


async def placed(plugin, seconds):
    """Let *seconds* pass with a pod and a node; return where the pod is, and what was said."""
    async with Harness(plugin) as cluster:
        cluster.create(make_node("a"), POD)
        await cluster.settle(seconds)
        return cluster.node_of(POD), cluster.condition(POD)[2], cluster.document(POD)["metadata"]


def test_the_pod_is_bound_once_it_has_acted():
    async def act():
        await asyncio.sleep(5)
        return [PostBinding({"example.com/ticket": "7"})]

    plugin = Acts(act)

    assert run(placed(plugin, 4))[0] == ""
    node, _, metadata = run(placed(plugin, 6))
    assert node == "a"
    assert metadata["annotations"]["example.com/ticket"] == "7"
    assert plugin.asked == [("web", "a", 1)] * 2


def test_it_may_return_nothing():
    async def act():
        return None

    assert run(placed(Acts(act), 1))[0] == "a"


async def for_ever():
    await asyncio.Event().wait()


async def raises():
    await asyncio.sleep(1)
    raise RuntimeError("no luck")


async def leaves():
    raise SystemExit(3)


async def talks():
    return "done"


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (for_ever, "plugin 'Acts' gave no answer in PreBind for 7s"),
        (raises, "plugin 'Acts' raised RuntimeError in PreBind: no luck"),
        (leaves, "plugin 'Acts' raised SystemExit in PreBind: 3"),
        (talks, "plugin 'Acts' answered pre_bind with 'd'"),
    ],
)
def test_a_failure_is_reported_and_the_node_freed(act, says):
    node, said, _ = run(placed(Acts(act, seconds=7.0), 8))

    assert node == ""
    assert says in said


# pytest-timeout's alarm and the one under test are the same.
@pytest.mark.timeout(60, method="thread")
def test_a_step_that_does_not_come_to_an_end_is_broken_off():
    async def act():
        await asyncio.sleep(0)
        spin()

    previous = signal.getsignal(signal.SIGALRM)
    timer = StallTimer(0.05)
    timer.install()
    observer, profile = Recorder(), Profile("p", queue_sort=None)
    supervisor = PluginSupervisor({"p": profile}, {"p": {"Acts"}}, observer, timer)

    async def main():
        await CoroutineCall("PreBind", "Acts", supervisor.observer_for(profile, POD), act())

    try:
        with pytest.raises(PluginError, match="stalled: it gave no answer in PreBind"):
            asyncio.run(main())
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert observer.reported == [("stalled", "Acts", "PreBind"), ("failed", "Acts", "PreBind")]


def test_an_awaited_coroutine_is_cancelled():
    heard = []

    async def act():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def main():
        task = asyncio.ensure_future(_awaited(CoroutineCall("PreBind", "Acts", SILENT, act())))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert heard == ["cancelled"]


async def _awaited(steps):
    return await steps
