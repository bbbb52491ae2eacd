"""Leases for tests: what they say, and an API server that holds them."""

import asyncio
import itertools
import json
import threading
import time
from datetime import UTC, datetime

from scheduler.errors import Conflict, Forbidden, NotFound, Unreachable
from scheduler.kube.election import Lease, LeaseRecord, LeaseSettings, encode_lease

WALL = datetime(2026, 7, 1, 12, 0, 0, 123456, UTC)
STAMP = "2026-07-01T12:00:00.123456Z"
EARLIER = "2026-06-30T09:00:00.000000Z"


def settings(identity="us", **times):
    return LeaseSettings(namespace="kube-system", name="py-scheduler", identity=identity, **times)


def held_by(holder, *, renewed="r1", seconds=15, transitions=4, version="1"):
    record = LeaseRecord(
        holder_identity=holder,
        lease_duration_seconds=seconds,
        acquire_time=EARLIER,
        renew_time=renewed,
        lease_transitions=transitions,
    )
    return Lease(metadata={"name": "py-scheduler", "resourceVersion": version}, spec=record)


class LeaseApi:
    """The leases of an API server: each write makes a version; an outdated one conflicts."""

    def __init__(self):
        self.leases = {}
        self.versions = itertools.count(1)
        self.down = False
        self.mute = False
        self.may_watch = True
        self.gets = 0
        self.watches = []
        self.listeners = 0
        self.sent = 0
        self.events = []
        self.lock = threading.Lock()

    async def get(self, path, params=None):
        self._check_up()
        self.gets += 1
        with self.lock:
            if path not in self.leases:
                raise NotFound(path)
            return json.dumps(self.leases[path]).encode()

    async def post(self, path, body, params=None):
        self._check_up()
        lease = json.loads(body)
        name = lease["metadata"]["name"]
        with self.lock:
            if f"{path}/{name}" in self.leases:
                raise Conflict("already exists")
            return self._store(f"{path}/{name}", lease)

    async def put(self, path, body, params=None):
        self._check_up()
        lease = json.loads(body)
        with self.lock:
            if path not in self.leases:
                raise NotFound(path)
            current = self.leases[path]["metadata"]["resourceVersion"]
            if lease["metadata"]["resourceVersion"] != current:
                raise Conflict("the object has been modified")
            return self._store(path, lease)

    async def watch(self, path, params, *, silence_seconds):
        self._check_up()
        self.watches.append({"path": path, **params})
        if not self.may_watch:
            raise Forbidden("leases is forbidden: cannot watch")
        self.listeners += 1
        try:
            seen, quiet_since = int(params["resourceVersion"]), time.monotonic()
            while time.monotonic() < quiet_since + silence_seconds:
                self._check_up()
                for version, line in () if self.mute else tuple(self.events):
                    if version > seen:
                        seen, quiet_since = version, time.monotonic()
                        yield line
                        self.sent = version
                await asyncio.sleep(0.002)
            raise Unreachable("silence")
        finally:
            self.listeners -= 1

    def store(self, path, lease):
        """Write the Lease, whoever holds it."""
        with self.lock:
            self._store(path, json.loads(encode_lease(lease)))

    def remove(self, path):
        """Delete the Lease, as an administrator would."""
        with self.lock:
            self._send("DELETED", next(self.versions), self.leases.pop(path))

    def _store(self, path, lease):
        version = next(self.versions)
        lease["metadata"]["resourceVersion"] = str(version)
        self._send("MODIFIED" if path in self.leases else "ADDED", version, lease)
        self.leases[path] = lease
        return json.dumps(lease).encode()

    def _send(self, what, version, lease):
        line = json.dumps({"type": what, "object": lease}).encode()
        self.events.append((version, line))

    def _check_up(self):
        if self.down:
            raise Unreachable("down")

    @property
    def holder(self):
        return next(iter(self.leases.values()))["spec"]["holderIdentity"]
