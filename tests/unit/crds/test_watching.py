"""What is made of kopf's words. (kopf itself is met on a real API server.)"""

import asyncio
from types import SimpleNamespace

import pytest

from scheduler.crds import watching

BODY = {"metadata": {"name": "main", "uid": "one", "generation": 2}, "spec": {}}


class ObjectStore:
    """Hears, or breaks."""

    def __init__(self, problem=None):
        self.problem = problem
        self.seen = []

    def on_changed(self, seen):
        if self.problem:
            raise self.problem
        self.seen.append(seen.generation)

    def on_deleted(self, uid):
        self.seen.append(uid)


async def hears(told, monkeypatch, *events):
    """Let kopf's handler hear *events*, and whoever runs kopf end when the handler wants it to."""

    async def spawn_tasks(registry, **_):
        (handler,) = registry._watching.get_all_handlers()

        async def tell():
            for type_, body in events:
                await handler.fn(type=type_, body=body)
            await asyncio.Event().wait()

        return [asyncio.create_task(tell())]

    async def served(*_):
        return b'{"resources": [{"name": "schedulerconfigurations"}]}'

    monkeypatch.setattr(watching.kopf, "spawn_tasks", spawn_tasks)
    async with asyncio.timeout(1):
        await watching.watch("main", told, None, SimpleNamespace(get=served), lambda: None)


async def test_what_happens_to_the_object_is_told_and_to_no_other(monkeypatch):
    told = ObjectStore()
    other = {"metadata": {"name": "other", "uid": "two"}}

    with pytest.raises(TimeoutError):
        await hears(told, monkeypatch, (None, BODY), ("MODIFIED", other), ("DELETED", BODY))

    assert told.seen == [2, "one"]


async def test_a_defect_of_whoever_is_told_is_raised_and_not_left_to_kopf(monkeypatch):
    with pytest.raises(LookupError, match="a defect"):
        await hears(ObjectStore(LookupError("a defect")), monkeypatch, ("ADDED", BODY))
