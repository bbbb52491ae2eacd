"""Which rows see a change of a sum by domain: those of the domain, and mostly few."""

from collections.abc import Callable, Sequence

from scheduler.snapshot.change_log import ChangeLog


def nothing_to_do() -> None:
    """Catch up with nothing: for sums that never change."""


class DomainLogs:
    """What has changed in sums by domain.

    Args:
        value_in: Returns the sum in the domain of a row; 0 where it has none.
        catch_up: Brings the sums up to date.
    """

    __slots__ = ("anywhere", "presence", "sums")

    def __init__(self, value_in: Callable[[int], int], catch_up: Callable[[], None]) -> None:
        self.sums = ChangeLog(value_in, by_domain=True, catch_up=catch_up)
        self.presence = ChangeLog(
            lambda row: int(value_in(row) > 0), by_domain=True, catch_up=catch_up
        )
        """Whether the sum is above 0."""
        self.anywhere = ChangeLog(catch_up=catch_up)
        """Whether the sum over all domains is."""

    def note(self, rows: Sequence[int] | None, before: int, after: int) -> None:
        """Note that the sum in the domain of *rows* was *before*; None if the domain is large."""
        if before == after:
            return
        note_rows(self.sums, rows)
        if (before > 0) != (after > 0):
            note_rows(self.presence, rows)

    def note_total(self, before: int, after: int) -> None:
        """Note that the sum over all domains was *before*."""
        if (before > 0) != (after > 0):
            self.anywhere.note_all()

    def abandon(self) -> None:
        """Tell readers that these sums are no longer updated: others may take their place."""
        for each in (self.sums, self.presence, self.anywhere):
            if not each.abandoned:
                each.abandon()


def note_rows(log: ChangeLog, rows: Sequence[int] | None) -> None:
    """Note that *rows* have changed; None if these are the rows of a large domain."""
    if rows is None:
        log.note_all()
    else:
        for row in rows:
            log.note(row)
