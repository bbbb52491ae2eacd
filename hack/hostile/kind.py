"""What a kind of hostile object is: where it stands, and how one is filled up to a size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, Final

Json = dict[str, Any]
Item = Callable[[int, int], Any]
"""Makes one item of the object of a number: the items of two objects differ."""

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
NAMESPACE: Final = "hostile"
INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
FULL_BYTES: Final = 1_400_000
"""As much JSON as an object may have: etcd takes requests of 1.5 MiB."""
ANNOTATION_BYTES_MAXIMUM: Final = 250_000
"""The API server accepts 256 KiB of annotations, keys and values together."""

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Where(Enum):
    """In what state the objects are when others are measured."""

    PENDING = "pending"
    """Pods for the scheduler to decide about."""
    BOUND = "bound"
    """Pods on a node already, of whatever scheduler."""
    OBJECT = "object"
    """No pods: nodes, claims, namespaces and the like."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of hostile object.

    Args:
        name: What it is, in words.
        where: The state of the objects.
        make: Makes the object of a number with about so many bytes.
        crowd: How many small objects stand for one large one: some things cost by their number.
    """

    name: str
    where: Where
    make: Callable[[int, int], Json]
    crowd: int = 1

    def objects(self, objects: int, size: int, first: int = 0) -> Iterator[Json]:
        """Yield so many objects of about *size* bytes, or a crowd for each of them.

        The objects of two numbers *first* differ as those of one call do.
        """
        each = max(1, self.crowd * size // FULL_BYTES) if self.crowd > 1 else 1
        numbers = range(first * each, (first + objects) * each)
        return (self.make(number, size // each) for number in numbers)


def filled(item: Callable[[int], Any], size: int) -> list[Any]:
    """Return as many items as *size* bytes of JSON hold, one at least."""
    items: list[Any] = []
    left = size
    for number in count():
        made = item(number)
        left -= len(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()) + 1
        if items and left < 0:
            return items
        items.append(made)
    raise AssertionError


def filled_map(entry: Callable[[int], tuple[str, Any]], size: int) -> Json:
    """Return as many entries as *size* bytes of JSON hold."""
    return dict(filled(entry, size))
