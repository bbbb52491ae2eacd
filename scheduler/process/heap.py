"""The heap of the process: what the garbage collector visits, and when.

The objects that are listed at the start live about as long as the process. A full collection visits
all of them in vain, and blocks the event loop meanwhile: for 0.14 s at 50,000 pods, nine times
during their list, the last one when they are listed.
"""

import asyncio
import gc
from collections.abc import Callable
from typing import Final

_FREEZE_OBJECTS: Final = 20_000
"""How many new objects are collected and exempted at once: a few milliseconds of work."""
_POLL_SECONDS: Final = 0.05


def freeze_heap() -> None:
    """Exempt all objects of this moment from garbage collection; collect the rest less often."""
    # Collect first: garbage that is frozen would never be freed.
    gc.collect()
    gc.freeze()
    # An object of a megabyte makes a hundred thousand: the middle generation is small enough that
    # its collection blocks the loop for 20 ms at most.
    gc.set_threshold(20_000, 2, 1250)


async def freeze_while_listing(listed: Callable[[], bool]) -> None:
    """Exempt from garbage collection whatever exists until *listed* returns True.

    New objects are collected and exempted in slices, so that no collection visits them twice.
    """
    freeze_heap()
    gc.disable()
    try:
        while not listed():
            if gc.get_count()[0] >= _FREEZE_OBJECTS:
                _freeze_new()
            await asyncio.sleep(_POLL_SECONDS)
        _freeze_new()
    finally:
        gc.enable()


def _freeze_new() -> None:
    """Collect and exempt what is not exempt yet: while the collector is off, all of it is young."""
    gc.collect(0)
    gc.freeze()
