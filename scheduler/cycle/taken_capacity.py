"""Tells whether pods of other schedulers took the capacity that a preemption freed."""

from collections.abc import Sequence

from scheduler.cycle.scheduling import Attempt, nominated_rows
from scheduler.errors import PluginError
from scheduler.framework.filtering import run_filters, run_pre_filters
from scheduler.model.pod import Pod


def capacity_was_taken(attempt: Attempt, node: str, taken_by: Sequence[Pod]) -> bool:
    """Tell whether the attempt's pod would fit on *node* without the pods *taken_by*, and only so.

    That it does not fit proves nothing by itself: pods of ours may be there now, or the node may be
    cordoned. And as long as it fits beside *taken_by*, they took nothing from it.
    """
    row = attempt.nodes.row_of(node)
    if row is None:
        return False
    alone = attempt.nodes.alone(row)
    emptied = alone.each(removing={0: taken_by})
    profile, pod, observer = attempt.profile, attempt.pod, attempt.observer
    try:
        pre_filtered = run_pre_filters(profile.pre_filter, pod, attempt.nodes, observer)
        if pre_filtered.refused is not None:
            return False
        skipped = pre_filtered.skipped
        fits = (
            run_filters(profile.filter, skipped, pod, view, nominated_rows(attempt, view), observer)
            for view in (alone, emptied)
        )
        now, without_them = (bool(each.feasible[0]) for each in fits)
    except PluginError:
        return False  # the attempt that follows fails in the same way, and reports it
    return without_them and not now
