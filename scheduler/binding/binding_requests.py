"""What a placement writes to the API server: nomination, what plugins want patched, the binding.

Source: ``pkg/scheduler/schedule_one.go`` (bindingCycle, bind, extendersBinding).
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.errors import ApiError, Unreachable
from scheduler.framework.decision import SetTo
from scheduler.framework.effects import Patch
from scheduler.framework.extender_protocol import bind_request, is_interested, read_bind
from scheduler.kube.binding import BindOutcome, Bound, NotBound, bind
from scheduler.kube.pod_status import NotPatched, nomination_patch, patch_status
from scheduler.kube.requests import MERGE_PATCH, Requests
from scheduler.kube.retry import retry
from scheduler.reporting.telemetry import Telemetry

_encode: Final = msgspec.json.Encoder().encode


class BindingRequests:
    """Writes what a placement takes, and takes back what can be.

    Args:
        requests: Carries them; it does not wait for the rate limit, *pace* does.
        pace: Waits until the rate limit lets a request leave.
        telemetry: Hears what went wrong and could be lived with.
    """

    def __init__(
        self, requests: Requests, pace: Callable[[], Awaitable[None]], telemetry: Telemetry
    ) -> None:
        self._requests = requests
        self.pace = pace
        self._telemetry = telemetry

    async def nominate(self, placement: BindingAttempt) -> None:
        """Tell everyone where the pod is going, if it will be some time until it is there."""
        patch = nomination_patch(placement.queued.pod, SetTo(placement.node))
        if not placement.will_wait or patch is None:
            return
        await self.pace()
        outcome = await patch_status(self._requests, placement.queued.pod, patch)
        if isinstance(outcome, NotPatched):
            self._telemetry.status_not_written(placement.pod, outcome.message)

    async def patch(
        self, placement: BindingAttempt, effect: Patch, *, wanted: Callable[[], bool]
    ) -> None:
        """Patch what a plugin wants patched, for as long as that is *wanted*.

        Raises:
            ApiError: If the API server does not take it.
        """
        await self.pace()
        try:
            await self._patch(effect.path, effect.body, wanted)
        except Unreachable:
            # Nobody knows whether it took effect: what takes it back does no harm then.
            placement.owe(effect.path, effect.undo)
            raise
        placement.owe(effect.path, effect.undo)

    async def take_back(self, placement: BindingAttempt) -> None:
        """Undo what was patched for the placement, the latest first."""
        for path, body in reversed(placement.undo):
            try:
                await self._patch(path, body, lambda: True)
            except ApiError as error:
                self._telemetry.effect_not_undone(placement.pod, path, str(error))

    async def bind(self, placement: BindingAttempt, *, objection: Callable[[], str]) -> BindOutcome:
        """Bind the pod: through an extender that wants to, or else by ourselves.

        *objection* tells why the binding should not be posted again.
        """
        for extender in placement.extenders.extenders:
            if extender.bind_verb and is_interested(extender, placement.pod):
                question = bind_request(extender, placement.pod, placement.node)
                why = read_bind(question, await placement.extenders.ask(question))
                if not why:
                    return Bound(placement.node)
                if not extender.ignorable:
                    return NotBound(why)
        return await bind(
            self._requests,
            placement.pod,
            placement.node,
            annotations=placement.annotations,
            observer=self._telemetry,
            objection=objection,
        )

    async def _patch(self, path: str, body: dict[str, Any], wanted: Callable[[], bool]) -> None:
        """Patch an object at the time that the API server asks for."""
        await retry(
            lambda: self._requests.patch(path, _encode(body), MERGE_PATCH),
            wanted=wanted,
            on_throttled=self._telemetry.throttled,
        )
