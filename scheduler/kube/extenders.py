"""The extenders and their client: replaced as one value when the configuration changes."""

from dataclasses import dataclass

from scheduler.config.document import Extender
from scheduler.framework.extender_protocol import ExtenderRequest, ExtenderResponse, NoResponse
from scheduler.kube.extender_client import ExtenderCall


async def not_connected(request: ExtenderRequest) -> ExtenderResponse:
    """Return no response: there is no client."""
    return NoResponse(f'extender "{request.extender.url_prefix}" cannot be asked')


@dataclass(frozen=True, slots=True)
class Extenders:
    """The extenders in the order of their calls, and the function that calls one."""

    extenders: tuple[Extender, ...] = ()
    call: ExtenderCall = not_connected
