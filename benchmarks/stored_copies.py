"""Fills a cluster by copying objects in etcd, in the bytes in which the API server stored them.

Creating 150,000 pods takes the API server far longer than starting with them. So a few are created
through it, and the others are copies of what it stored. The objects are protobuf, which counts
bytes, so a name can be exchanged for another of the same length.

Copy while the API server is down: its watch cache then reads all of them at its start, as it reads
the objects of any cluster.
"""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hack.api import request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hack.api import Json
    from hack.kubeconfig import Access

_AT_ONCE: Final = 100
"""Puts in one transaction; etcd allows 128."""
_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Stored:
    """One object as etcd has it: its key, and its bytes."""

    key: bytes
    value: bytes

    def copy(self, exchanged: Mapping[bytes, bytes]) -> Stored:
        """Return a copy in which each key of *exchanged* has become its value, wherever it stood.

        Raises:
            ValueError: A text is not there, or its length would change.
        """
        key, value = self.key, self.value
        for old, new in exchanged.items():
            if len(old) != len(new):
                raise ValueError(f"{old!r} and {new!r} differ in length")
            if old not in value:
                raise ValueError(f"{old!r} is not in {key!r}")
            key, value = key.replace(old, new), value.replace(old, new)
        return Stored(key, value)


def read(etcd: Access, key: str) -> Stored:
    """Read one object."""
    found = request(etcd, "POST", "/v3/kv/range", {"key": _encode(key.encode())})["kvs"][0]
    return Stored(key.encode(), base64.b64decode(found["value"]))


def write(etcd: Access, objects: Iterable[Stored]) -> None:
    """Write objects, a hundred in each transaction."""
    for batch in _batches(objects):
        puts = [{"key": _encode(each.key), "value": _encode(each.value)} for each in batch]
        body: Json = {"success": [{"requestPut": put} for put in puts]}
        answer = request(etcd, "POST", "/v3/kv/txn", body, timeout_seconds=_SECONDS)
        assert answer["succeeded"], "a transaction without a condition succeeds"


def _batches(objects: Iterable[Stored]) -> Iterator[list[Stored]]:
    rest = iter(objects)
    while batch := list(itertools.islice(rest, _AT_ONCE)):
        yield batch


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
