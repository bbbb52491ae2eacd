"""What is made of kopf's words. (kopf itself is met on a real API server.)"""

import asyncio
from types import SimpleNamespace

import pytest

from scheduler.crds import watching

BODY = {"metadata": {"name": "main", "uid": "one", "generation": 2}, "spec": {}}


class FakeResource:
    """Keeps what is reported, or raises."""

    def __init__(self, problem=None):
        self.problem = problem
        self.seen = []

    def on_changed(self, seen):
        if self.problem:
            raise self.problem
        self.seen.append(seen.generation)

    def on_deleted(self, uid):
        self.seen.append(uid)


async def report_events(resource, monkeypatch, *events):
    """Call kopf's handler with *events*; kopf's run ends when the handler reports a defect."""

    async def spawn_tasks(registry, **_):
        (handler,) = registry._watching.get_all_handlers()

        async def deliver():
            for type_, body in events:
                await handler.fn(type=type_, body=body)
            await asyncio.Event().wait()

        return [asyncio.create_task(deliver())]

    async def served(*_):
        return b'{"resources": [{"name": "schedulerconfigurations"}]}'

    monkeypatch.setattr(watching.kopf, "spawn_tasks", spawn_tasks)
    async with asyncio.timeout(60):
        await watching.watch("main", resource, None, SimpleNamespace(get=served), lambda: None)


async def test_changes_of_the_object_and_of_no_other_are_reported(monkeypatch):
    resource = FakeResource()
    other = {"metadata": {"name": "other", "uid": "two"}}

    with pytest.raises(TimeoutError):
        await report_events(
            resource, monkeypatch, (None, BODY), ("MODIFIED", other), ("DELETED", BODY)
        )

    assert resource.seen == [2, "one"]


async def test_a_defect_of_the_resource_is_raised_and_not_left_to_kopf(monkeypatch):
    with pytest.raises(LookupError, match="a defect"):
        await report_events(FakeResource(LookupError("a defect")), monkeypatch, ("ADDED", BODY))
