"""Every pod has a story: what happened to it, in order, remembered for a while.

Both the number of pods and the lines of each are bounded; the pod nobody spoke of for longest is
forgotten first.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened.

    Args:
        time_seconds: When, on whatever clock the teller uses.
        attempt: The scheduling attempt it belongs to; 0 outside of one.
        text: What.
    """

    time_seconds: float
    attempt: int
    text: str


class PodHistory:
    """The stories of the pods spoken of last.

    Args:
        pods_maximum: How many pods are remembered.
        lines_maximum: How many lines of each; the oldest go first.
    """

    def __init__(self, pods_maximum: int = 5000, lines_maximum: int = 32) -> None:
        self._stories: OrderedDict[str, deque[Line]] = OrderedDict()
        self._pods_maximum = pods_maximum
        self._lines_maximum = lines_maximum

    def __len__(self) -> int:
        return len(self._stories)

    def tell(self, uid: str, time_seconds: float, attempt: int, text: str) -> None:
        """Add a line to the story of the pod *uid*."""
        story = self._stories.get(uid)
        if story is None:
            story = self._begin(uid)
        if story and story[-1].text == text:
            text = story[-1].text  # what is said again and again is kept once
        story.append(Line(time_seconds, attempt, text))
        self._stories.move_to_end(uid)

    def of(self, uid: str) -> tuple[Line, ...]:
        """Return the story of the pod *uid*, oldest line first; empty if nothing is remembered."""
        return tuple(self._stories.get(uid, ()))

    def forget(self, uid: str) -> None:
        """Drop the story of the pod *uid*, if there is one."""
        self._stories.pop(uid, None)

    def _begin(self, uid: str) -> deque[Line]:
        if len(self._stories) >= self._pods_maximum:
            self._stories.popitem(last=False)
        return self._stories.setdefault(uid, deque(maxlen=self._lines_maximum))


def render(story: tuple[Line, ...]) -> str:
    """Write *story* as text, one line each, times counted from its first line."""
    if not story:
        return "nothing is remembered"
    begin = story[0].time_seconds
    return "\n".join(
        f"{line.time_seconds - begin:+9.3f}s  attempt {line.attempt}  {line.text}" for line in story
    )
