"""The watches of the process: one reflector for each resource that the plugins need.

A changed configuration may add watches, but never ends one before the process ends: pods on their
way to a node may still need it, and a rollback would have to list everything again.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from scheduler.kube.reflector import Reflector, ReflectorClient
from scheduler.kube.reflector_timeouts import SharedBackoff
from scheduler.kube.watch_observer import WatchObserver
from scheduler.kube.watched import Watched
from scheduler.model.fact import Fact, ResourceName

_POLL_SECONDS: Final = 0.02


class Watches:
    """The reflectors, and the tasks in which they run.

    Args:
        client: Sends the requests.
        sink: Receives the facts.
        observer: Is called when a watch starts, breaks or is denied.
        watched: What is watched from the start.
    """

    def __init__(
        self,
        client: ReflectorClient,
        sink: Callable[[Fact], None],
        observer: WatchObserver,
        watched: Iterable[Watched[Any]],
    ) -> None:
        self._client = client
        self._sink = sink
        self._observer = observer
        self._shared_backoff = SharedBackoff()
        self._tasks: dict[ResourceName, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.reflectors: dict[ResourceName, Reflector[Any]] = {}
        for each in watched:
            self._add(each)

    async def run(self) -> None:
        """Watch until cancelled."""
        assert self._group is None, "the watches are running already"
        async with asyncio.TaskGroup() as self._group:
            for resource in self.reflectors:
                self._start(resource)
            await asyncio.Event().wait()

    async def widen(self, wanted: Iterable[Watched[Any]], timeout_seconds: float) -> str:
        """Watch *wanted* as well, and return once all of it is listed.

        Before `run`, as in a standby with delayCacheUntilActive, it is only added.

        Returns:
            What could not be listed in time, and is not watched then; empty if all was.
        """
        new, wider = _new_and_wider(wanted, self.reflectors)
        if self._group is None:
            for each in new:
                self._add(each)
            for each in wider:
                self.reflectors[each.resource].reread(each)
            return ""
        lists_before = {each.resource: self.reflectors[each.resource].lists for each in wider}
        for each in new:
            self._add(each)
            self._start(each.resource)
        before = [self.reflectors[each.resource].watched for each in wider]
        await self._reread(wider)

        def missing() -> list[ResourceName]:
            unlisted = [each.resource for each in new if not self.reflectors[each.resource].listed]
            return unlisted + [
                resource
                for resource, lists in lists_before.items()
                if self.reflectors[resource].lists == lists
            ]

        try:
            async with asyncio.timeout(timeout_seconds):
                while missing():  # noqa: ASYNC110 - reflectors have no event for it
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            late = missing()
            if not late:
                return ""  # the last list was completed between the last poll and the deadline
            # The configuration in force goes on with what it has watched so far.
            await self._reread(before)
            for each in new:
                await self._remove(each.resource)
            return ", ".join(late)
        return ""

    def _add(self, watched: Watched[Any]) -> None:
        assert watched.resource not in self.reflectors, f"{watched.resource} is watched already"
        self.reflectors[watched.resource] = Reflector(
            self._client,
            watched,
            self._sink,
            observer=self._observer,
            shared_backoff=self._shared_backoff,
        )

    def _start(self, resource: ResourceName) -> None:
        assert self._group is not None, "a watch starts before the others run"
        assert resource not in self._tasks, f"{resource} is watched by two tasks"
        self._tasks[resource] = self._group.create_task(self.reflectors[resource].run())

    async def _stop(self, resource: ResourceName) -> None:
        task = self._tasks.pop(resource)
        task.cancel()
        await asyncio.wait((task,))

    async def _reread(self, watched: Iterable[Watched[Any]]) -> None:
        for each in watched:
            await self._stop(each.resource)
            self.reflectors[each.resource].reread(each)
            self._start(each.resource)

    async def _remove(self, resource: ResourceName) -> None:
        await self._stop(resource)
        self.reflectors.pop(resource).retract()


def _new_and_wider(
    wanted: Iterable[Watched[Any]], known: dict[ResourceName, Reflector[Any]]
) -> tuple[list[Watched[Any]], list[Watched[Any]]]:
    """Return what of *wanted* is not watched yet, and what is watched without all its fields."""
    new, wider = [], []
    for each in wanted:
        reflector = known.get(each.resource)
        if reflector is None:
            new.append(each)
        elif (both := reflector.watched.also(each)) != reflector.watched:
            wider.append(both)
    return new, wider
