"""The extenders that are asked, and how: replaced as one value when the configuration changes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scheduler.config.document import Extender
from scheduler.framework.extending import Answer, Ask, Unanswered

Asker = Callable[[Ask], Awaitable[Answer]]
"""Puts a question to an extender and returns what came back, or why nothing did."""


async def nobody_to_ask(ask: Ask) -> Answer:
    """Answer for extenders where none are connected."""
    return Unanswered(f'extender "{ask.extender.url_prefix}" cannot be asked')


def asked_only_while(may_act: Callable[[], bool], ask: Asker) -> Asker:
    """Return *ask*, for extenders which may bind in our place: asked only while *may_act*."""

    async def guarded(question: Ask) -> Answer:
        if not may_act():
            return Unanswered("not asked, since this process leads no more")
        return await ask(question)

    return guarded


@dataclass(frozen=True, slots=True)
class Extending:
    """Extenders in the order in which they are asked, and who carries the questions."""

    extenders: tuple[Extender, ...] = ()
    ask: Asker = nobody_to_ask
