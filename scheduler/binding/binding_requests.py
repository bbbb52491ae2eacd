"""What a binding attempt writes to the API server, and what is undone if it fails.

Callers wait for the rate limit with `pace` before a request. The wait is apart from the request so
that the binding cycle can check the node once more in between.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from scheduler.binding.binding_attempt import BindingAttempt
from scheduler.errors import ApiError, Unreachable
from scheduler.framework.decision import SetTo
from scheduler.framework.effects import Patch
from scheduler.framework.extender_protocol import bind_request, is_interested, read_bind
from scheduler.kube.binding import BindOutcome, Bound, NotBound
from scheduler.kube.pod_status import NotPatched, nomination_patch, patch_status
from scheduler.kube.requests import MERGE_PATCH, Requests
from scheduler.kube.retry import retry
from scheduler.reporting.telemetry import Telemetry

_encode: Final = msgspec.json.Encoder().encode


class BindingRequests:
    """Sends nominations, patches of pre-bind plugins, and bindings.

    Args:
        client: Sends them, without a wait for the rate limit.
        pace: Waits until the rate limit permits a request.
        telemetry: Records failures that do not end the attempt.
    """

    def __init__(
        self, client: Requests, pace: Callable[[], Awaitable[None]], telemetry: Telemetry
    ) -> None:
        self.client = client
        self.pace = pace
        self._telemetry = telemetry

    async def nominate(self, attempt: BindingAttempt) -> None:
        """Write the node into the pod's status, for other schedulers, while the pod has to wait."""
        patch = nomination_patch(attempt.queued.pod, SetTo(attempt.node))
        if patch is None:
            return
        await self.pace()
        outcome = await patch_status(self.client, attempt.queued.pod, patch)
        if isinstance(outcome, NotPatched):
            self._telemetry.status_not_written(attempt.pod, outcome.message)

    async def patch(
        self, attempt: BindingAttempt, effect: Patch, *, wanted: Callable[[], bool]
    ) -> None:
        """Send the patch of a plugin; no retry begins once *wanted* returns false.

        Raises:
            ApiError: If the API server does not take it.
        """
        undo = [] if effect.undo is None else [(effect.path, effect.undo)]
        await self.pace()
        try:
            await self._patch(effect.path, effect.body, wanted)
        except Unreachable:
            # The answer is lost, so the patch may have taken effect; undoing it does no harm.
            attempt.undo += undo
            raise
        attempt.undo += undo

    async def undo_patches(self, attempt: BindingAttempt) -> None:
        """Undo what was patched for the attempt, the latest first."""
        for path, body in reversed(attempt.undo):
            try:
                await self._patch(path, body, lambda: True)
            except ApiError as error:
                self._telemetry.effect_not_undone(attempt.pod, path, str(error))

    async def bind_by_extender(self, attempt: BindingAttempt) -> BindOutcome | None:
        """Have an extender bind the pod; None where none is to, or an ignorable one fails."""
        for extender in attempt.extenders.extenders:
            if extender.bind_verb and is_interested(extender, attempt.pod):
                request = bind_request(extender, attempt.pod, attempt.node)
                why = read_bind(request, await attempt.extenders.call(request))
                if not why:
                    return Bound(attempt.node)
                if not extender.ignorable:
                    return NotBound(why)
        return None

    async def _patch(self, path: str, body: dict[str, Any], wanted: Callable[[], bool]) -> None:
        """Send a patch, again after the pause that a 429 asks for."""
        await retry(
            lambda: self.client.patch(path, _encode(body), MERGE_PATCH),
            wanted=wanted,
            on_throttled=self._telemetry.throttled,
        )
