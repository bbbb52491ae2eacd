"""Something that goes on in a thread of its own until it is left."""

import threading
from collections.abc import Callable
from typing import Self


class Background:
    """Runs a function in a thread; leaving asks it to end, and waits until it has.

    Args:
        run: Returns soon after the event is set that it is given.
    """

    def __init__(self, run: Callable[[threading.Event], None]) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=run, args=(self._ending,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
