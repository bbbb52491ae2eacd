"""What plugins say once a node is chosen: Reserve, Permit, PreBind, and whether the pod still fits.

Here they are asked; what they want done is done by the binding cycle.

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
from scheduler.framework import checked_calls
from scheduler.framework.effects import Condition, Effect, Patch, WaitUntil
from scheduler.framework.filtering import run_filters, run_pre_filters
from scheduler.framework.invoke import Steps, call_plugin
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import PermitPlugin, PreBindPlugin, Reserved, ReservePlugin
from scheduler.framework.rejection import Allow, Failure, PermitAnswer, Reject, Wait
from scheduler.model.pod import Pod
from scheduler.out_of_tree.plugin_supervisor import PluginSupervisor
from scheduler.reporting.failure_handler import AttemptFailure
from scheduler.reporting.telemetry import Telemetry
from scheduler.snapshot.node_table import NodeTable

ACTING_SECONDS: Final = 60.0
"""How long an asynchronous ``pre_bind`` may take that does not say so itself."""


def acts_by_itself(plugin: PreBindPlugin) -> bool:
    """Tell whether *plugin* is a user's with an asynchronous ``pre_bind``."""
    return iscoroutinefunction(plugin.pre_bind)


class BindingPlugins:
    """Asks the plugins of a placement's profile.

    A method raises PluginError where a plugin raised or gave an answer that means nothing.

    Args:
        cache: What they are shown, and where what they take for written is assumed.
        telemetry: Hears how long they took.
        care: Watches over those that did not come with the scheduler.
    """

    def __init__(self, cache: ClusterCache, telemetry: Telemetry, care: PluginSupervisor) -> None:
        self._cache = cache
        self._telemetry = telemetry
        self._care = care

    # Reserve.

    def reserve(self, placement: BindingAttempt) -> AttemptFailure | None:
        """Let plugins set aside what the pod takes; return the first refusal."""
        with self._telemetry.extension_point("Reserve", placement.profile) as ends:
            failed = self._reserve(placement)
            ends(status_of(failed))
        return failed

    def _reserve(self, placement: BindingAttempt) -> AttemptFailure | None:
        for plugin in placement.profile.reserve:
            answer = self._ask_reserve(plugin, placement)
            if isinstance(answer, Reject):
                return AttemptFailure.rejected(plugin.name, answer.reason)
            if isinstance(answer, Failure):
                return _broken(plugin, answer.text)
            for each in answer or ():
                if not self._cache.assume_object(each.resource, each.item):
                    return _broken(plugin, f"{each.item.metadata.name} changed meanwhile")
                placement.assumed.append(each)
        return None

    def _ask_reserve(self, plugin: ReservePlugin, placement: BindingAttempt) -> Reserved:
        return call_plugin(
            "Reserve",
            plugin.name,
            self._watch(placement),
            checked_calls.reserve,
            plugin,
            placement.pod,
            placement.node,
            self._cache.view(),
        )

    def unreserve(self, placement: BindingAttempt) -> None:
        """Let plugins give back what they set aside; one that fails must not keep the others."""
        watch = self._watch(placement)
        for plugin in reversed(placement.profile.reserve):
            try:
                call_plugin(
                    "Unreserve",
                    plugin.name,
                    watch,
                    plugin.unreserve,
                    placement.pod,
                    placement.node,
                )
            except PluginError as bug:
                if not self._care.is_out_of_tree(placement.profile, bug.plugin):  # else it is told
                    self._telemetry.plugin_failed(bug.plugin, "Unreserve", str(bug))
        for each in reversed(placement.assumed):
            self._cache.restore_object(each.resource, each.item)

    # Permit.

    def permit(
        self, placement: BindingAttempt, waiting: Sequence[Pod]
    ) -> list[tuple[PermitPlugin, Wait]] | AttemptFailure:
        """Return who wants the pod to wait, or the refusal of the first that refuses.

        *waiting* are the pods that wait already.
        """
        with self._telemetry.extension_point("Permit", placement.profile) as ends:
            waits = self._permit(placement, waiting)
            ends(
                status_of(waits)
                if isinstance(waits, AttemptFailure)
                else "Wait"
                if waits
                else "Success"
            )
        return waits

    def _permit(
        self, placement: BindingAttempt, waiting: Sequence[Pod]
    ) -> list[tuple[PermitPlugin, Wait]] | AttemptFailure:
        waits: list[tuple[PermitPlugin, Wait]] = []
        for plugin in placement.profile.permit:
            answer = self.ask_permit(placement, plugin, waiting)
            match answer:
                case Allow():
                    pass
                case Wait():
                    waits.append((plugin, answer))
                case Reject(reason):
                    return AttemptFailure.rejected(plugin.name, reason)
        return waits

    def ask_permit(
        self, placement: BindingAttempt, plugin: PermitPlugin, waiting: Sequence[Pod]
    ) -> PermitAnswer:
        """Ask one plugin, for the first time or again."""
        return call_plugin(
            "Permit",
            plugin.name,
            self._watch(placement),
            checked_calls.permit,
            plugin,
            placement.pod,
            placement.node,
            waiting,
        )

    # PreBind.

    def effects(self, plugin: PreBindPlugin, placement: BindingAttempt) -> list[Effect]:
        """Return what *plugin* wants done before the pod is bound."""
        watch = self._watch(placement)
        found = call_plugin(
            "PreBind",
            plugin.name,
            watch,
            checked_calls.pre_bind,
            plugin,
            placement.pod,
            placement.node,
            self._cache.view(),
        )

        def carefully(condition: Condition) -> Condition:
            return lambda nodes: call_plugin("PreBind", plugin.name, watch, condition, nodes)

        return [
            replace(each, condition=carefully(each.condition))
            if isinstance(each, WaitUntil)
            else each
            for each in found
        ]

    def has_to_prepare(self, placement: BindingAttempt) -> bool:
        """Tell whether a plugin wants something done or waited for before the pod is bound."""
        return any(
            acts_by_itself(plugin)
            or any(isinstance(each, Patch | WaitUntil) for each in self.effects(plugin, placement))
            for plugin in placement.profile.pre_bind
        )

    async def acts(self, plugin: PreBindPlugin, placement: BindingAttempt) -> list[Effect]:
        """Let *plugin*, whose ``pre_bind`` is asynchronous, act; return what it wants done then.

        It is asked once, after its pod was nominated, and each of its steps is a turn of its own.
        """
        seconds = float(getattr(plugin, "pre_bind_seconds", ACTING_SECONDS))
        asked: Any = plugin.pre_bind(placement.pod, placement.node, self._cache.view())
        watch = self._watch(placement)
        try:
            async with asyncio.timeout(seconds):
                said = await Steps("PreBind", plugin.name, watch, asked)
        except TimeoutError:
            raise PluginError(plugin.name, f"gave no answer in PreBind for {seconds:g}s") from None
        return checked_calls.effects(plugin.name, said or ())

    # Filter, once more.

    def no_longer_fits(self, placement: BindingAttempt) -> AttemptFailure | None:
        """Check the chosen row again: facts may have come in while the bind waited for its turn."""
        nodes = self._cache.view()
        row = nodes.row_of(placement.node)
        if row is None:
            return AttemptFailure.error(f"node {placement.node} is gone")
        if not self._cache.is_assumed(placement.pod.uid):
            return None  # confirmed or removed meanwhile; the API server's answer will tell
        alone = nodes.alone(row)
        if not _is_overcommitted(alone, placement.pod):
            return None
        # Perhaps nobody minds: filters can be off, or told to pass over a resource.
        before = alone.each(removing={0: (placement.pod,)})
        profile, pod = placement.profile, placement.decision.pod
        watch = self._watch(placement)
        pre_filtered = run_pre_filters(profile.pre_filter, pod, before, watch)
        if pre_filtered.refused is not None:
            return AttemptFailure.error(f"node {placement.node}: {pre_filtered.refused.reason}")
        found = run_filters(profile.filter, pre_filtered.skipped, pod, before, {}, watch)
        found.raise_failure()
        if found.feasible[0]:
            return None
        reasons = ", ".join(verdict.reason for verdict in found.verdicts)
        return AttemptFailure.error(f"node {placement.node} was filled meanwhile: {reasons}")

    def objection(self, placement: BindingAttempt) -> str:
        """Tell why the binding should not be posted again; empty where it may be."""
        try:
            failed = self.no_longer_fits(placement)
        except PluginError as bug:
            return str(bug)
        return "" if failed is None else failed.message

    def _watch(self, placement: BindingAttempt) -> Observer:
        return self._care.watch(placement.profile, placement.pod)


def status_of(failed: AttemptFailure | None) -> str:
    """Return upstream's name for how a run of an extension point ended."""
    if failed is None:
        return "Success"
    return "Unschedulable" if failed.rejected_by else "Error"


def _broken(plugin: ReservePlugin, why: str) -> AttemptFailure:
    return AttemptFailure.error(f'running Reserve plugin "{plugin.name}": {why}', plugin.name)


def _is_overcommitted(alone: NodeTable, pod: Pod) -> bool:
    """Tell whether the node of the only row has less than what is requested on it."""
    return any(
        amount > 0 and alone.requested(resource)[0] > alone.allocatable(resource)[0]
        for resource, amount in pod.requests.items()
    ) or bool(alone.pod_count[0] > alone.allowed_pods[0])
