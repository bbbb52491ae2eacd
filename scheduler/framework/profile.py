"""A profile: the plugins that judge the pods of one scheduler name, in order, with weights."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    needs_of,
)


@dataclass(frozen=True, slots=True)
class Weighted:
    """A score plugin, and the factor by which its normalized scores are multiplied."""

    plugin: ScorePlugin
    weight: int


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins of one scheduler name, by extension point.

    Args:
        scheduler_name: The ``spec.schedulerName`` that chooses this profile.
        percentage_of_nodes_to_score: 0 scores every feasible node, which is the default; otherwise
            at least a hundred nodes and this share of the cluster are scored.
        generation: Grows with each configuration that is applied while the process runs.
    """

    scheduler_name: str
    queue_sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    post_filter: tuple[PostFilterPlugin, ...] = ()
    score: tuple[Weighted, ...] = ()
    reserve: tuple[ReservePlugin, ...] = ()
    permit: tuple[PermitPlugin, ...] = ()
    pre_bind: tuple[PreBindPlugin, ...] = ()
    percentage_of_nodes_to_score: int = 0
    generation: int = 0

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Every plugin once, in the order of the points they serve."""
        everywhere: tuple[Plugin, ...] = (
            *self.pre_enqueue,
            self.queue_sort,
            *self.pre_filter,
            *self.filter,
            *self.post_filter,
            *(weighted.plugin for weighted in self.score),
            *self.reserve,
            *self.permit,
            *self.pre_bind,
        )
        return tuple({id(plugin): plugin for plugin in everywhere}.values())


def needs_of_all(profiles: Iterable[Profile]) -> frozenset[str]:
    """Return the resources that some plugin of *profiles* reads beyond nodes and pods."""
    plugins = (plugin for profile in profiles for plugin in profile.plugins)
    return frozenset(need for plugin in plugins for need in needs_of(plugin))
