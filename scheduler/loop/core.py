"""Joins cache, queue and cycle to the loop; what reaches the outside comes in as arguments.

The process is put together in app; this half of it is the same around a real API server and around
a simulated one. `SchedulerCore.apply_configuration` replaces the configuration of a running loop.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from scheduler.binding.binding_cycle import BindingCycle
from scheduler.binding.binding_plugins import BindingPlugins
from scheduler.binding.binding_requests import BindingRequests
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.framework.extender_protocol import ExtenderVerdicts
from scheduler.framework.plugin import SortKey
from scheduler.framework.profile import Profile
from scheduler.kube.extenders import Extenders
from scheduler.kube.requests import Requests
from scheduler.loop.control_loop import ControlLoop, LoopSettings
from scheduler.loop.fact_handlers import FactHandlers
from scheduler.model.fact import ResourceName
from scheduler.model.pod import Pod
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.out_of_tree.stall_timer import StallTimer
from scheduler.preemption.evictions import EvictionGate, Evictions
from scheduler.preemption.freed_capacity import FreedCapacities
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.queue.hints import ProfileRules, rules_for
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.failure_handler import AttemptFailure, FailureHandler
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.status_writer import StatusWriter
from scheduler.reporting.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class LoopConfiguration:
    """What a configuration means for the loop; replaced as a whole, between two pods.

    Args:
        profiles: By scheduler name, one at least.
        out_of_tree: By scheduler name, the plugins that did not come with the scheduler.
        queue: How long pods wait.
        extenders: The extenders, and how they are asked.
        awaited: What must have been listed before a decision.
    """

    profiles: Mapping[str, Profile]
    out_of_tree: Mapping[str, Collection[str]] = field(default_factory=dict)
    queue: QueueSettings = field(default_factory=QueueSettings)
    extenders: Extenders = field(default_factory=Extenders)
    awaited: frozenset[ResourceName] = frozenset()

    @property
    def first(self) -> Profile:
        """The profile whose plugin sorts the queue: all have the same one."""
        return next(iter(self.profiles.values()))


@dataclass(frozen=True, slots=True)
class AppliedConfiguration:
    """What became of pods that wait when a setup was replaced.

    Args:
        taken: How many had waited for a profile that exists now.
        left: How many waited for a profile that exists no more.
    """

    taken: int
    left: int


class SchedulerCore:
    """The loop with its cache and queue, and the inbox that leads to it.

    Every part is made when another first asks for it, so that those who need one another find one
    another here.

    Args:
        setup: What the configuration at the start means.
        requests: Keeps to the rate limit by itself.
        binds: Does not, since a bind waits for *pace* first and is checked once more after it.
        pace: Waits until the rate limit lets a request leave.
        telemetry: Hears of everything.
        may_act: Tells whether this process leads right now.
        loop_settings: How the loop shares its time.
        timer: Breaks off plugins that stall.
        clock: Monotonic seconds.
        wall: The time of day, in seconds since 1970.
    """

    def __init__(
        self,
        *,
        setup: LoopConfiguration,
        requests: Requests,
        binds: Requests,
        pace: Callable[[], Awaitable[None]],
        telemetry: Telemetry,
        may_act: Callable[[], bool],
        loop_settings: LoopSettings,
        timer: StallTimer | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._setup = setup
        self._requests = requests
        self._binds = binds
        self._pace = pace
        self._telemetry = telemetry
        self._may_act = may_act
        self._loop_settings = loop_settings
        self.clock = clock
        self._wall = wall
        self._ours = set(setup.profiles)
        self.cache, self.inbox, self._rooms = ClusterCache(), Inbox(), FreedCapacities()
        self.care = PluginSupervisor(setup.profiles, setup.out_of_tree, telemetry, timer)
        self.status = StatusWriter(requests, telemetry)
        self._gate = EvictionGate(lambda pod: self.evictions.holds_back(pod))  # noqa: PLW0108 - later

    def apply_configuration(self, setup: LoopConfiguration, now: float) -> AppliedConfiguration:
        """Go on with *setup*: to be called by the loop, which is between two pods then.

        Pods on their way to a node keep the plugins and extenders that sent them there. Everybody
        else is asked about anew; nobody is dropped, except that pods of a name without a profile
        wait outside.
        """
        before = self.care.names
        names = frozenset(setup.profiles)
        left = self.handlers.leave(before - names)
        self.care.replace(setup.profiles, setup.out_of_tree)
        self.queue.replace_rules(
            self._rules(setup), now, sort_key=self._sort_key(setup), settings=setup.queue
        )
        self.loop.use_extenders(setup.extenders, setup.awaited)
        self.binding.use_extenders(setup.extenders)
        return AppliedConfiguration(taken=self.handlers.serve(names - before), left=left)

    @cached_property
    def loop(self) -> ControlLoop:
        """The only writer of cache and queue."""
        return ControlLoop(
            care=self.care,
            cache=self.cache,
            queue=self.queue,
            inbox=self.inbox,
            handlers=self.handlers,
            binding=self.binding,
            failures=self._failures,
            evictions=self.evictions,
            other_schedulers=self.other_schedulers,
            rooms=self._rooms,
            telemetry=self._telemetry,
            awaited=self._setup.awaited,
            may_act=self._may_act,
            clock=self.clock,
            settings=self._loop_settings,
            extenders=self._setup.extenders,
        )

    @cached_property
    def queue(self) -> SchedulingQueue:
        """The pods that wait."""
        return SchedulingQueue(
            self._rules(self._setup),
            self._sort_key(self._setup),
            self._setup.queue,
            self._telemetry,
        )

    @cached_property
    def handlers(self) -> FactHandlers:
        """What each fact means."""
        return FactHandlers(
            self.cache,
            self.queue,
            self._ours,
            evictions=self.evictions,
            other_schedulers=self.other_schedulers,
            on_assumed_pod_deleted=self.binding.on_assumed_pod_deleted,
            unreadable=lambda pod: self._failures.report(pod, _unreadable(pod)),
        )

    @cached_property
    def binding(self) -> BindingCycle:
        """Pods on their way to a node."""
        return BindingCycle(
            cache=self.cache,
            queue=self.queue,
            inbox=self.inbox,
            failures=self._failures,
            plugins=BindingPlugins(self.cache, self._telemetry, self.care),
            requests=BindingRequests(self._binds, self._pace, self._telemetry),
            telemetry=self._telemetry,
            clock=self.clock,
            extenders=self._setup.extenders,
            left=lambda pod: self.evictions.left(pod),  # noqa: PLW0108 - later
        )

    @cached_property
    def evictions(self) -> Evictions:
        """Room that is being made."""
        return Evictions(
            rooms=self._rooms,
            cache=self.cache,
            queue=self.queue,
            inbox=self.inbox,
            requests=self._requests,
            binding=self.binding,
            status=self.status,
            telemetry=self._telemetry,
            clock=self.clock,
            wall=self._stamp,
        )

    @cached_property
    def other_schedulers(self) -> OtherSchedulers:
        """What others do on our nodes."""
        return OtherSchedulers(
            cache=self.cache,
            queue=self.queue,
            ours=self._ours,
            rooms=self._rooms,
            telemetry=self._telemetry,
            may_act=self._may_act,
            wall_seconds=self._wall,
        )

    @cached_property
    def _failures(self) -> FailureHandler:
        return FailureHandler(
            queue=self.queue,
            status=self.status,
            telemetry=self._telemetry,
            newest=lambda pod: self.handlers.newest(pod),  # noqa: PLW0108 - later
            ours=self._ours,
            clock=self.clock,
            wall=self._stamp,
        )

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _rules(self, setup: LoopConfiguration) -> Mapping[str, ProfileRules]:
        """Return what the queue asks, by profile: of its plugins, and of who stands beside."""
        beside = (self._gate, ExtenderVerdicts()) if setup.extenders.extenders else (self._gate,)
        return {
            name: self.care.rules(profile, rules_for((*profile.plugins, *beside)))
            for name, profile in setup.profiles.items()
        }

    def _sort_key(self, setup: LoopConfiguration) -> Callable[[Pod], SortKey]:
        return _careful_sort_key(setup.first, self.care, self._telemetry)


def _careful_sort_key(
    profile: Profile, care: PluginSupervisor, telemetry: Telemetry
) -> Callable[[Pod], SortKey]:
    """Return the plugin's key, by which pods can always be ordered whatever the plugin does."""
    plugin = profile.queue_sort
    sort_key = care.method("QueueSort", profile, plugin.name, plugin.sort_key)
    kind: type[SortKey] = type(plugin.sort_key(Pod()))

    def key(pod: Pod) -> SortKey:
        try:
            found = sort_key(pod)
            if isinstance(found, kind):
                return found
            problem = f"sort_key returned {found!r}, not {kind.__name__} as for other pods"
        except Exception as bug:  # noqa: BLE001 - a plugin's bug must not lose a pod
            problem = f"sort_key raised {type(bug).__name__}: {bug}"
        telemetry.plugin_failed(plugin.name, "QueueSort", problem)
        return kind()

    return key


def _unreadable(pod: Pod) -> AttemptFailure:
    return AttemptFailure.error(f"the pod cannot be read: {pod.malformed}")
