"""Calls plugins once a node is chosen: Reserve, Permit, PreBind, and the filters once more.

Plugins answer with effects as data; the binding cycle performs them.

Source: ``pkg/scheduler/framework/runtime/framework.go`` (RunReservePluginsReserve,
RunReservePluginsUnreserve, RunPermitPlugins, RunPreBindPlugins).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, Final

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.errors import PluginError
from scheduler.framework import invoke
from scheduler.framework.effects import Condition, Effect, PostBinding, WaitUntil
from scheduler.framework.filtering import run_filters, run_pre_filters
from scheduler.framework.invoke import CoroutineCall, call_plugin
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import PermitPlugin, PreBindPlugin, Reserved, ReservePlugin
from scheduler.framework.rejection import Allow, Failure, PermitAnswer, Reject, Wait
from scheduler.model.pod import Pod
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.reporting.failure_handler import AttemptFailure
from scheduler.reporting.telemetry import Telemetry
from scheduler.snapshot.node_table import NodeTable

PRE_BIND_SECONDS: Final = 60.0
"""How long an asynchronous ``pre_bind`` may take that does not say so itself."""


def is_async(plugin: PreBindPlugin) -> bool:
    """Tell whether *plugin* is an out-of-tree plugin with an asynchronous ``pre_bind``."""
    return iscoroutinefunction(plugin.pre_bind)


class BindingPlugins:
    """Calls the plugins of an attempt's profile.

    Methods raise PluginError where a plugin raised or returned something outside its contract.

    Args:
        cache: The source of views; objects that plugins are about to write are assumed in it.
        telemetry: Records how long extension points take.
        supervisor: Counts failures of out-of-tree plugins.
    """

    def __init__(
        self, cache: ClusterCache, telemetry: Telemetry, supervisor: PluginSupervisor
    ) -> None:
        self._cache = cache
        self._telemetry = telemetry
        self._supervisor = supervisor

    # Reserve.

    def reserve(self, attempt: BindingAttempt) -> AttemptFailure | None:
        """Call Reserve; return the failure of the first plugin that rejects the pod or fails."""
        failure = None
        observer = self._observer_of(attempt)
        with self._telemetry.extension_point("Reserve", attempt.profile) as set_status:
            for plugin in attempt.profile.reserve:
                answer: Reserved = call_plugin(
                    "Reserve",
                    plugin.name,
                    observer,
                    invoke.reserve,
                    plugin,
                    attempt.pod,
                    attempt.node,
                    self._cache.view(),
                )
                failure = self._failure_of(plugin, answer, attempt)
                if failure is not None:
                    break
            set_status(status_of(failure))
        return failure

    def _failure_of(
        self, plugin: ReservePlugin, answer: Reserved, attempt: BindingAttempt
    ) -> AttemptFailure | None:
        """Assume the objects that *plugin* is about to write; return why it cannot reserve."""
        match answer:
            case Reject(reason):
                return AttemptFailure.rejected(plugin.name, reason)
            case Failure(text=text):
                return _failed(plugin, text)
        for each in answer or ():
            if not self._cache.assume_object(each.resource, each.item):
                return _failed(plugin, f"{each.item.metadata.name} changed meanwhile")
            attempt.assumed.append(each)
        return None

    def unreserve(self, attempt: BindingAttempt) -> None:
        """Call Unreserve in reverse order; a plugin that fails does not keep the others from it."""
        assert attempt.is_over, f"the reservations of {attempt.pod.key} are still in use"
        observer = self._observer_of(attempt)
        for plugin in reversed(attempt.profile.reserve):
            try:
                call_plugin(
                    "Unreserve",
                    plugin.name,
                    observer,
                    plugin.unreserve,
                    attempt.pod,
                    attempt.node,
                )
            except PluginError as bug:
                # The supervisor has reported it already if the plugin is out-of-tree.
                if not self._supervisor.is_out_of_tree(attempt.profile, bug.plugin):
                    self._telemetry.plugin_failed(bug.plugin, "Unreserve", str(bug))
        for each in reversed(attempt.assumed):
            self._cache.restore_object(each.resource, each.item)

    # Permit.

    def permit(
        self, attempt: BindingAttempt, waiting: Sequence[Pod]
    ) -> list[tuple[PermitPlugin, Wait]] | AttemptFailure:
        """Return the plugins that want the pod to wait, or the failure of the first rejection.

        *waiting* are the pods that wait for permits already.
        """
        waits: list[tuple[PermitPlugin, Wait]] = []
        with self._telemetry.extension_point("Permit", attempt.profile) as set_status:
            for plugin in attempt.profile.permit:
                answer = self.call_permit(attempt, plugin, waiting)
                match answer:
                    case Allow():
                        pass
                    case Wait():
                        waits.append((plugin, answer))
                    case Reject(reason):
                        failure = AttemptFailure.rejected(plugin.name, reason)
                        set_status(status_of(failure))
                        return failure
            set_status("Wait" if waits else "Success")
        return waits

    def call_permit(
        self, attempt: BindingAttempt, plugin: PermitPlugin, waiting: Sequence[Pod]
    ) -> PermitAnswer:
        """Call Permit of one plugin, for the first time or again."""
        return call_plugin(
            "Permit",
            plugin.name,
            self._observer_of(attempt),
            invoke.permit,
            plugin,
            attempt.pod,
            attempt.node,
            waiting,
        )

    # PreBind.

    def effects(self, plugin: PreBindPlugin, attempt: BindingAttempt) -> list[Effect]:
        """Call PreBind of *plugin*, and return the effects that it wants."""
        observer = self._observer_of(attempt)
        found = call_plugin(
            "PreBind",
            plugin.name,
            observer,
            invoke.pre_bind,
            plugin,
            attempt.pod,
            attempt.node,
            self._cache.view(),
        )

        def supervised(condition: Condition) -> Condition:
            return lambda nodes: call_plugin("PreBind", plugin.name, observer, condition, nodes)

        return [
            replace(each, condition=supervised(each.condition))
            if isinstance(each, WaitUntil)
            else each
            for each in found
        ]

    def annotations_at_once(self, attempt: BindingAttempt) -> dict[str, str] | None:
        """Return what plugins add to the binding; None if one acts or waits before it.

        If none does, this was their call of PreBind: the binding is posted next.
        """
        began = self._telemetry.began()
        annotations: dict[str, str] = {}
        for plugin in attempt.profile.pre_bind:
            if is_async(plugin):
                return None
            for effect in self.effects(plugin, attempt):
                if not isinstance(effect, PostBinding):
                    return None
                annotations.update(effect.annotations)
        self._telemetry.extension_point_ended("PreBind", attempt.profile, began)
        return annotations

    async def call_async(self, plugin: PreBindPlugin, attempt: BindingAttempt) -> list[Effect]:
        """Await PreBind of *plugin*, whose ``pre_bind`` is asynchronous, and return its effects.

        It is called once, after its pod was nominated. The time limit for a stall counts from one
        await of it to the next.
        """
        seconds = float(getattr(plugin, "pre_bind_seconds", PRE_BIND_SECONDS))
        running: Any = plugin.pre_bind(attempt.pod, attempt.node, self._cache.view())
        try:
            async with asyncio.timeout(seconds):
                effects = await CoroutineCall(
                    "PreBind", plugin.name, self._observer_of(attempt), running
                )
        except TimeoutError:
            raise PluginError(plugin.name, f"gave no answer in PreBind for {seconds:g}s") from None
        return invoke.effects(plugin.name, effects or ())

    # Filter, once more.

    def no_longer_fits(self, attempt: BindingAttempt) -> AttemptFailure | None:
        """Check the chosen row again: facts may have come in while the bind waited."""
        nodes = self._cache.view()
        row = nodes.row_of(attempt.node)
        if row is None:
            return AttemptFailure.error(f"node {attempt.node} is gone")
        if not self._cache.is_assumed(attempt.pod.uid):
            return None  # confirmed or removed meanwhile; the API server's answer will tell
        alone = nodes.alone(row)
        if not _is_overcommitted(alone, attempt.pod):
            return None
        # The filters decide: they may be disabled, or configured to ignore a resource.
        before = alone.each(removing={0: (attempt.pod,)})
        profile, pod = attempt.profile, attempt.decision.pod
        observer = self._observer_of(attempt)
        pre_filtered = run_pre_filters(profile.pre_filter, pod, before, observer)
        if pre_filtered.refused is not None:
            return AttemptFailure.error(f"node {attempt.node}: {pre_filtered.refused.reason}")
        found = run_filters(profile.filter, pre_filtered.skipped, pod, before, {}, observer)
        found.raise_failure()
        if found.feasible[0]:
            return None
        reasons = ", ".join(verdict.reason for verdict in found.verdicts)
        return AttemptFailure.error(f"node {attempt.node} was filled meanwhile: {reasons}")

    def objection(self, attempt: BindingAttempt) -> str:
        """Return why the binding should not be posted again; empty where it may be."""
        try:
            failed = self.no_longer_fits(attempt)
        except PluginError as bug:
            return str(bug)
        return "" if failed is None else failed.message

    def view(self) -> NodeTable:
        """Return the cluster as it is known now."""
        return self._cache.view()

    def _observer_of(self, attempt: BindingAttempt) -> Observer:
        return self._supervisor.observer_for(attempt.profile, attempt.pod)


def status_of(failure: AttemptFailure | None) -> str:
    """Return upstream's name for how a run of an extension point ended."""
    if failure is None:
        return "Success"
    return "Unschedulable" if failure.rejected_by else "Error"


def _failed(plugin: ReservePlugin, why: str) -> AttemptFailure:
    return AttemptFailure.error(f'running Reserve plugin "{plugin.name}": {why}', plugin.name)


def _is_overcommitted(alone: NodeTable, pod: Pod) -> bool:
    """Tell whether the node of the only row has less than what is requested on it."""
    return any(
        amount > 0 and alone.requested(resource)[0] > alone.allocatable(resource)[0]
        for resource, amount in pod.requests.items()
    ) or bool(alone.pod_count[0] > alone.allowed_pods[0])
