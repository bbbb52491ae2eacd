"""The extenders in use, and how they are called: one value, which a reload replaces."""

from dataclasses import dataclass

from scheduler.config.document import Extender
from scheduler.framework.extender_protocol import ExtenderRequest, ExtenderResponse, NoResponse
from scheduler.kube.extender_client import Asker


async def without_connection(request: ExtenderRequest) -> ExtenderResponse:
    """Return no response: nothing is connected to the extender."""
    return NoResponse(f'extender "{request.extender.url_prefix}" cannot be asked')


@dataclass(frozen=True, slots=True)
class Extenders:
    """Extenders in the order in which they are called, and what sends the requests."""

    extenders: tuple[Extender, ...] = ()
    ask: Asker = without_connection
