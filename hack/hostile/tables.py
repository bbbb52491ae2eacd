"""Counts what a process keeps: the entries of every table that can be reached from some objects.

A table is any dict, list, set, deque or array in an attribute of an object of ours, under the name
of class and attribute, or in a variable of a module of ours; and every ``lru_cache`` of our
modules. Values of the model (pods, terms,
selectors) are what tables are about, and are not looked into.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

_OURS: Final = "scheduler."
_VALUES: Final = "scheduler.model."
_SETS: Final = (set, frozenset, deque, list, tuple)
_TABLES: Final = (Mapping, np.ndarray, asyncio.Task, *_SETS)
_WHOLE: Final = ("Templates.",)
"""Tables that are one, whatever is in them: kept answers are made of values of many classes."""
_CACHE: Final = type(functools.lru_cache(len))


def entries(*roots: object) -> Counter[str]:
    """Return how many entries each table has that can be reached from *roots* and our modules.

    Tables of the same name (of several objects of one class) are added up; those inside of another
    table have its name with ``[]``. Arrays count in bytes.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    # In breadth: a table that several objects share has the name that is closest to a root.
    waiting = deque[tuple[str, Any]]((type(root).__name__, root) for root in roots)
    waiting += ((f"{module}.{name}", item) for module, name, item in _variables(Mapping))
    while waiting:
        path, item = waiting.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            found[f"{path} (bytes)"] += item.nbytes
        elif isinstance(item, Mapping):
            found[path] += len(item)
            waiting += ((f"{path}[]", each) for each in item.values() if _may_hold(each))
        elif isinstance(item, _SETS):
            found[path] += len(item)
            waiting += ((f"{path}[]", each) for each in item if _may_hold(each))
        elif isinstance(item, asyncio.Task):
            found["tasks"] += not item.done()
        else:
            waiting += (
                (path if path.startswith(_WHOLE) else f"{type(item).__name__}.{name}", value)
                for name, value in _attributes(item)
            )
    return found


def _may_hold(item: object) -> bool:
    """Tell whether *item* may be or contain a table of ours."""
    if isinstance(item, _TABLES):
        return True
    modules = [kind.__module__ for kind in type(item).__mro__]
    return any(map(_is_ours, modules)) and not modules[0].startswith(_VALUES)


def _is_ours(module: str) -> bool:
    return module.startswith(_OURS)


def _attributes(item: object) -> Iterator[tuple[str, Any]]:
    if not _may_hold(item):
        return
    names = dict.fromkeys(getattr(item, "__dict__", ()))
    for kind in type(item).__mro__:
        slots = getattr(kind, "__slots__", ())
        names.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    for name in names:
        if hasattr(item, name) and _may_hold(value := getattr(item, name)):
            yield name, value


def caches() -> dict[str, int]:
    """Return how many bytes each ``lru_cache`` of our modules holds."""
    return {f"{module}.{name}": _deep_bytes(item) for module, name, item in _variables(_CACHE)}


def _variables(kind: type) -> Iterator[tuple[str, str, Any]]:
    """Yield module, name and value of each variable of a *kind* that a module of ours has made."""
    # Not from the garbage collector's list: it leaves out what `freeze_heap` has frozen.
    seen: set[int] = set()
    for module, content in list(sys.modules.items()):
        for name, item in list(vars(content).items()) if _is_ours(module) else ():
            if isinstance(item, kind) and not name.startswith("__") and id(item) not in seen:
                seen.add(id(item))
                yield module, name, item


def _deep_bytes(cache: Any) -> int:
    """Return the bytes of all that *cache* refers to, the function itself left out."""
    total, seen = 0, {id(cache), id(cache.__wrapped__), id(cache.__dict__), id(type(cache))}
    waiting = gc.get_referents(cache)
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type) or callable(item):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, msgspec.Struct):
            # Most are invisible to the garbage collector.
            waiting += [getattr(item, name) for name in item.__struct_fields__]
        else:
            waiting += gc.get_referents(item)
    return total


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the tables that have more entries than before, with both counts."""
    return {
        name: (before.get(name, 0), count)
        for name, count in sorted(after.items())
        if count > before.get(name, 0)
    }
