"""Compares the store of one watch with the API server, page by page, and corrects the store.

Nothing of a page is kept but what differs: a second copy of all pods does not fit beside the first.

All pages show the moment of the first one, and the watch goes on meanwhile. So the store may be
ahead of a page, which is no drift, and behind it for as long as an event is on its way. Whatever is
behind is looked at again, with another list, and counts only if both versions are the same as
before.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec

from scheduler.errors import ApiError, Gone, Unreachable
from scheduler.kube.decode import Identity, Key, ObjectDecoder, Unreadable, identity_of
from scheduler.kube.listing import list_pages
from scheduler.kube.object_store import equal
from scheduler.kube.reflector import Reflector
from scheduler.kube.requests import Params, Reads
from scheduler.kube.retry import Backoff, RetrySettings, retry
from scheduler.kube.slices import Slices

Kind = Literal["missing", "redundant", "outdated"]
Sleep = Callable[[float], Awaitable[None]]
R = TypeVar("R")

PAGE_OBJECTS: Final = 100
"""Small pages: a few of the largest objects that an API server accepts are 150 MB already, and one
page is decoded in one step."""
SUSPECTS_MAXIMUM: Final = 10_000
"""What differs beyond that is left to the next comparison."""
SETTLE_SECONDS: Final = 5.0
RETRIES: Final = RetrySettings(
    Backoff(seconds_initial=1.0, seconds_maximum=10.0, spread=(0.5, 1.5)),
    tries_maximum=3,
    throttled_seconds_maximum=60.0,
    throttled_spread=(1.0, 1.1),
)


@dataclass(frozen=True, slots=True)
class Suspect:
    """An object that differs between the store and the API server.

    Args:
        kind: What is wrong with the store.
        ours: The version in the store; empty if there is none.
        theirs: The version at the API server; empty if there is none.
    """

    kind: Kind
    ours: str
    theirs: str


class StoreComparer:
    """Compares the store of one watch with the API server.

    Args:
        metadata: Lists objects; may leave out all but their metadata, which is all that the first
            list needs.
        requests: Lists whole objects: what differs is corrected from them.
        reflector: Owns the store, and sends corrections on as facts.
        retries: How often a page is requested.
        sleep: Waits before the second list.
    """

    def __init__(
        self,
        metadata: Reads,
        requests: Reads,
        reflector: Reflector[Any],
        *,
        retries: RetrySettings = RETRIES,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._metadata = metadata
        self._requests = requests
        self._reflector = reflector
        self._retries = retries
        self._sleep = sleep

    async def compare(self, corrected: dict[Key, Kind]) -> None:
        """Correct what is wrong, and note it in *corrected*: at once, since a list may break off.

        Raises:
            ApiError: If a list cannot be read.
        """
        suspects = await _begin_anew_when_expired(self._find)
        if suspects:
            # Most suspects are changes that the watch delivers in this time.
            await self._sleep(SETTLE_SECONDS)
            suspects = {key: each for key, each in suspects.items() if self._stands(key, each)}
        if suspects:
            await _begin_anew_when_expired(lambda: self._correct(suspects, corrected))

    async def _find(self) -> dict[Key, Suspect]:
        """List once, and return what differs."""
        # What is stored and listed nowhere is redundant. A key that was stored at the beginning and
        # is not when its page comes was deleted in between; a key that was not is missing.
        unlisted = dict.fromkeys(self._reflector.store)
        suspects: dict[Key, Suspect] = {}
        async for page in self._pages(self._metadata):
            for _, listed in _readable(page):
                was_stored = listed.key in unlisted
                unlisted.pop(listed.key, None)
                suspect = self._suspect(listed, was_stored=was_stored)
                if suspect is not None and len(suspects) < SUSPECTS_MAXIMUM:
                    suspects[listed.key] = suspect
        slices = Slices()
        for key in unlisted:
            stored = self._reflector.store.get(key)
            if stored is not None and len(suspects) < SUSPECTS_MAXIMUM:
                suspects[key] = Suspect("redundant", stored.metadata.resource_version, "")
            if slices.is_full():
                await asyncio.sleep(0)
        return suspects

    async def _correct(self, suspects: dict[Key, Suspect], corrected: dict[Key, Kind]) -> None:
        """List again, and correct the suspects that are the same as before."""
        assert suspects, "there is nothing to look at again"
        unlisted = dict(suspects)
        decoder = ObjectDecoder(self._reflector.watched)
        async for page in self._pages(self._requests):
            for raw, listed in _readable(page):
                suspect = unlisted.pop(listed.key, None)
                if suspect is None or suspect.theirs != listed.version:
                    continue
                found = decoder.item(raw)
                stored = self._reflector.store.get(listed.key)
                # A change of a field that is not decoded leaves equal objects with different
                # versions.
                if isinstance(found, Unreadable) or (stored is not None and equal(stored, found)):
                    continue
                if self._stands(listed.key, suspect):
                    self._reflector.correct(listed.key, found)
                    corrected[listed.key] = suspect.kind
        for key, suspect in unlisted.items():
            if suspect.kind == "redundant" and self._stands(key, suspect):
                self._reflector.correct(key, None)
                corrected[key] = suspect.kind

    def _suspect(self, listed: Identity, *, was_stored: bool) -> Suspect | None:
        """Return how the store is behind the list in one object; None if it is not."""
        stored = self._reflector.store.get(listed.key)
        if stored is None:
            return None if was_stored else Suspect("missing", "", listed.version)
        ours = stored.metadata.resource_version
        if ours == listed.version and stored.metadata.uid == listed.uid:
            return None
        return (
            None if _is_newer(ours, listed.version) else Suspect("outdated", ours, listed.version)
        )

    def _stands(self, key: Key, suspect: Suspect) -> bool:
        """Tell whether the watch has delivered nothing about a suspect."""
        stored = self._reflector.store.get(key)
        return ("" if stored is None else stored.metadata.resource_version) == suspect.ours

    def _pages(self, requests: Reads) -> AsyncIterator[tuple[msgspec.Raw, ...]]:
        def get(path: str, params: Params) -> Awaitable[bytes]:
            return retry(lambda: requests.get(path, params), self._retries, repeats=_is_lost)

        return list_pages(get, self._reflector.watched, PAGE_OBJECTS)


async def _begin_anew_when_expired(work: Callable[[], Awaitable[R]]) -> R:
    """Do *work*, which lists, and do it again where the API server forgot the list's moment.

    It forgets every few minutes, so a list that begins right afterwards has the longest time.
    """
    try:
        return await work()
    except Gone:
        return await work()


def _is_lost(error: ApiError) -> bool:
    """Whether a page got no answer: a thousand others were read before it."""
    return isinstance(error, Unreachable)


def _readable(page: tuple[msgspec.Raw, ...]) -> Iterator[tuple[msgspec.Raw, Identity]]:
    """Yield the objects whose identity can be read."""
    for raw in page:
        listed = identity_of(raw)
        if listed is not None:
            yield raw, listed


def _is_newer(ours: str, theirs: str) -> bool:
    """Tell whether *ours* is the newer version.

    Versions of one resource grow as numbers do. Where a server had others, nothing would be newer,
    and the second list would find that the objects have changed.
    """
    return ours.isdecimal() and theirs.isdecimal() and int(ours) > int(theirs)
