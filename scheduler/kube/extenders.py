"""The extenders that are asked, and how: replaced as one value when the configuration changes."""

from dataclasses import dataclass

from scheduler.config.document import Extender
from scheduler.framework.extender_protocol import Answer, Ask, Unanswered
from scheduler.kube.extender_client import Asker


async def nobody_to_ask(ask: Ask) -> Answer:
    """Answer for extenders where none are connected."""
    return Unanswered(f'extender "{ask.extender.url_prefix}" cannot be asked')


@dataclass(frozen=True, slots=True)
class Extenders:
    """Extenders in the order in which they are asked, and who carries the questions."""

    extenders: tuple[Extender, ...] = ()
    ask: Asker = nobody_to_ask
