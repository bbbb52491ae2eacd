"""Builds the loop's parts, each after the parts that it depends on.

app builds the process around them; the harness in testing builds the same parts around a simulated
API server. `SchedulerCore.apply_configuration` replaces the configuration of a running loop.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from scheduler.binding.binding_cycle import Assumptions, BindingCycle
from scheduler.binding.binding_plugins import BindingPlugins
from scheduler.binding.binding_requests import BindingRequests
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.cache.pending_pods import PendingPods
from scheduler.framework.extender_protocol import ExtenderVerdicts
from scheduler.framework.plugin import SortKey
from scheduler.framework.profile import Profile
from scheduler.kube.extenders import Extenders
from scheduler.kube.requests import Requests
from scheduler.loop.control_loop import ControlLoop, LoopSettings
from scheduler.loop.fact_handlers import FactHandlers
from scheduler.loop.schedule_one import ScheduleOne, SchedulingCycle
from scheduler.model.fact import ResourceName
from scheduler.model.pod import Pod
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.out_of_tree.stall_timer import StallTimer
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.freed_capacity import FreedCapacities
from scheduler.preemption.other_schedulers import OtherSchedulers
from scheduler.preemption.preemptions import EvictionGate, Preemptions
from scheduler.preemption.preemptors import Preemptors
from scheduler.queue.hints import ProfileRules, rules_for
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.reporting.clock import Clock
from scheduler.reporting.failure_handler import FailureHandler
from scheduler.reporting.inbox import Inbox
from scheduler.reporting.status_writer import StatusWriter
from scheduler.reporting.tasks import Tasks
from scheduler.reporting.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class LoopConfiguration:
    """What a configuration means for the loop; replaced as a whole, between two pods.

    Args:
        profiles: By scheduler name, one at least.
        out_of_tree: By scheduler name, the plugins that did not come with the scheduler.
        queue: How long pods wait.
        extenders: The extenders, and how they are called.
        awaited: Resources that must have been listed before the first pod is popped.
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
    """What a new configuration means for pods that wait.

    Args:
        adopted: How many pending pods have a profile now and had none before.
        dismissed: How many pending pods had a profile before and have none now.
    """

    adopted: int
    dismissed: int


class SchedulerCore:
    """The loop with its cache and queue, and the inbox that leads to it.

    Args:
        configuration: What the configuration at the start means.
        requests: Sends evictions and statuses; every request waits for the rate limit inside.
        binds: Sends the writes of binding attempts. They wait for the rate limit separately: after
            the wait and before the request, the binding cycle checks that the pod still fits.
        may_act: Returns whether this process leads right now.
        settings: How the loop shares its time.
        timer: Interrupts plugins that stall.
    """

    def __init__(
        self,
        *,
        configuration: LoopConfiguration,
        requests: Requests,
        binds: BindingRequests,
        telemetry: Telemetry,
        may_act: Callable[[], bool],
        settings: LoopSettings,
        timer: StallTimer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._telemetry = telemetry
        self.clock = clock = clock or Clock()

        # State of the cluster, profiles, and pod statuses.
        self.cache = ClusterCache()
        self.inbox = Inbox()
        self._pending = PendingPods(configuration.profiles)
        self.supervisor = PluginSupervisor(
            configuration.profiles, configuration.out_of_tree, telemetry, timer
        )
        self.status = StatusWriter(requests, telemetry)

        # The queue, and the gate that keeps preemptors out of it.
        self.preemptions = Preemptions(self.cache)
        self._gate = EvictionGate(self.preemptions)
        self.queue = SchedulingQueue(
            self._rules(configuration),
            self._sort_key(configuration),
            configuration.queue,
            telemetry,
        )
        self.freed = FreedCapacities()
        preemptors = Preemptors(self.preemptions, self.freed, self.queue, self.status, clock)
        failures = FailureHandler(self.queue, self._pending, self.status, telemetry, clock)

        # Parts that carry decisions out.
        self.binding = BindingCycle(
            assumptions=Assumptions(self.cache, self.queue, clock, preemptors.pod_left),
            queue=self.queue,
            plugins=BindingPlugins(self.cache, telemetry, self.supervisor),
            requests=binds,
            failures=failures,
            tasks=Tasks(self.inbox),
            telemetry=telemetry,
            clock=clock,
        )
        self.evictions = Evictions(
            preemptors=preemptors,
            pending=self._pending,
            binding=self.binding,
            failures=failures,
            requests=requests,
            tasks=Tasks(self.inbox),
            telemetry=telemetry,
            clock=clock,
        )
        self.other_schedulers = OtherSchedulers(
            cache=self.cache,
            queue=self.queue,
            pending=self._pending,
            freed=self.freed,
            telemetry=telemetry,
            may_act=may_act,
            clock=clock,
        )

        # The loop.
        self._handlers = FactHandlers(
            cache=self.cache,
            queue=self.queue,
            pending=self._pending,
            preemptors=preemptors,
            other_schedulers=self.other_schedulers,
            binding=self.binding,
            failures=failures,
            pod_entries_maximum=settings.pod_entries_maximum,
        )
        self._handlers.await_listing(configuration.awaited)
        self._cycle = SchedulingCycle(
            cache=self.cache,
            queue=self.queue,
            supervisor=self.supervisor,
            telemetry=telemetry,
            extenders=configuration.extenders,
            seed=settings.seed,
            check_decisions=settings.check_decisions,
        )
        self.loop = ControlLoop(
            inbox=self.inbox,
            queue=self.queue,
            handlers=self._handlers,
            schedule_one=ScheduleOne(
                queue=self.queue,
                cycle=self._cycle,
                binding=self.binding,
                evictions=self.evictions,
                failures=failures,
                other_schedulers=self.other_schedulers,
                telemetry=telemetry,
                clock=clock,
            ),
            telemetry=telemetry,
            may_act=may_act,
            clock=clock,
            settings=settings,
        )

    def apply_configuration(
        self, configuration: LoopConfiguration, now: float
    ) -> AppliedConfiguration:
        """Replace the configuration; only the loop calls this, between two pods.

        Pods in their binding cycle keep the plugins and extenders that chose their node. All other
        pods run through the new gates and are retried. Pods that have no profile now are removed
        from the queue.
        """
        before = self.supervisor.names
        names = frozenset(configuration.profiles)
        dismissed = self._handlers.dismiss(before - names)
        self.supervisor.replace(configuration.profiles, configuration.out_of_tree)
        self.queue.replace_rules(
            self._rules(configuration),
            now,
            sort_key=self._sort_key(configuration),
            settings=configuration.queue,
        )
        self._cycle.replace_extenders(configuration.extenders)
        self._handlers.await_listing(configuration.awaited)
        return AppliedConfiguration(self._handlers.adopt(names - before), dismissed)

    def _rules(self, configuration: LoopConfiguration) -> Mapping[str, ProfileRules]:
        """Return the gates and hints of each profile: those of its plugins and our own."""
        # Not plugins of the profile: any post-filter plugin may preempt, so the eviction gate stays
        # where DefaultPreemption is disabled.
        ours = (
            (self._gate, ExtenderVerdicts()) if configuration.extenders.extenders else (self._gate,)
        )
        return {
            name: self.supervisor.rules(profile, rules_for((*profile.plugins, *ours)))
            for name, profile in configuration.profiles.items()
        }

    def _sort_key(self, configuration: LoopConfiguration) -> Callable[[Pod], SortKey]:
        return _supervised_sort_key(configuration.first, self.supervisor, self._telemetry)


def _supervised_sort_key(
    profile: Profile, supervisor: PluginSupervisor, telemetry: Telemetry
) -> Callable[[Pod], SortKey]:
    """Return the sort key of the plugin; where it is out-of-tree, every key has the same type."""
    plugin = profile.queue_sort
    if not supervisor.is_out_of_tree(profile, plugin.name):
        return plugin.sort_key
    sort_key = supervisor.method("QueueSort", profile, plugin.name, plugin.sort_key)
    # Keys of two types may not compare, and an exception inside the heap would lose pods. The type
    # of the key of an empty pod is required of all others.
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
