"""What happened in a run, in order: for reports, and to compare a run with its replay."""

from collections.abc import Iterable, Iterator


class Journal:
    """One line for each event, with its time and its subject."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, str, str]] = []

    def note(self, now: float, subject: str, text: str) -> None:
        """Note what happened to *subject*: a pod, a node, or the scheduler."""
        self._lines.append((now, subject, text))

    def __iter__(self) -> Iterator[tuple[float, str, str]]:
        """Yield time, subject and text of each line."""
        return iter(self._lines)

    def __len__(self) -> int:
        """Return how many lines there are."""
        return len(self._lines)

    def lines_about(self, subjects: Iterable[str], most: int = 60) -> str:
        """Return the last lines about *subjects*."""
        wanted = set(subjects)
        lines = [
            f"  {now:9.3f}s  {subject:<12} {text}"
            for now, subject, text in self._lines
            if subject in wanted
        ]
        return "\n".join(lines[-most:])
