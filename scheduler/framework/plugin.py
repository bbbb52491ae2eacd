"""The plugin contract: the methods that a plugin may have.

A plugin is any object with a ``name`` and the methods of the extension points it serves; it
inherits nothing. All methods are plain functions: no clock, randomness, input, output or logs; the
same arguments give the same answer. Arrays that it receives are read-only.

The extension points, in the order in which a pod passes them:

=================  ==============================================================================
``pre_enqueue``    may this pod enter the queue?
``sort_key``       which pod first? (one plugin a profile)
``pre_filter``     before nodes are judged: every node, only these nodes, or no node at all
``filter``         which nodes cannot take the pod, and why
``post_filter``    no node can: which preemption would help?
``score``          which of the remaining nodes are better, 0 to 100
``reserve``        a node is chosen: reserve what the pod needs there (``unreserve`` reverts it)
``permit``         now, later or not at all?
``pre_bind``       what must be done, as effects, before the pod is bound
=================  ==============================================================================

Optional attributes:

- ``node_local = True`` promises that a row's verdict and raw score depend on that row, the pod and
  the plugin's arguments alone.
- ``each_world = True`` promises less: in a what-if table (``NodeTable.each``), where each row shows
  a cluster of its own, the filter judges every row by that row's own changes. A filter that
  promises neither is called once for each changed row.
- ``scores_by_row = True`` promises for the raw score what ``node_local`` does, except that it may
  depend on other nodes of the cluster, though not on which of them are in the table.
- ``scores_alike = True`` promises the same score, raw and normalized, to rows of which the plugin
  reads the same, however many such rows there are. Then it is asked about one of them.
- Each of the three also promises that pre-filter, filter and raw score depend on the pod's template
  alone: not on its name, UID, times and status. Then answers are kept and given again for other
  pods of the template; a plugin that promises none of the three is called for each pod.
- ``reads_identity = True`` takes this last promise back.
- ``requeue_on`` names the events that could help a pod which the plugin rejected.
- ``needs`` names further resources that the plugin reads; ``patches`` names, in the same words,
  what the effects of ``pre_bind`` patch.
- ``pre_bind_seconds`` limits how long an asynchronous ``pre_bind`` of an out-of-tree plugin takes.
- ``normalize`` turns raw scores into 0 to 100.
- ``knows_schedulers = True`` passes the scheduler names of all profiles to the constructor, as
  *schedulers*.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from scheduler.framework.cluster_event import Requeue
from scheduler.framework.diagnosis import Diagnosis, Filtered
from scheduler.framework.effects import Assume, Effect
from scheduler.framework.kept_search import SearchMemory
from scheduler.framework.rejection import (
    Failure,
    Gate,
    PermitAnswer,
    PreFilterAnswer,
    Proposal,
    Refusal,
    Reject,
    Rejection,
    Scores,
)
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable

Normalize = Callable[[Scores, Pod, NodeTable], Scores]
"""Turns raw scores into 0..100; see scheduler.framework.normalize for the usual ones."""


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has."""

    name: str


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Decides whether a pod may enter the queue."""

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        """Return why *pod* must not enter the queue yet; None admits it."""
        ...


SortKey = tuple[int, ...] | int | str
"""What pods are ordered by; a plugin always returns the same kind."""


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue."""

    def sort_key(self, pod: Pod) -> SortKey:
        """Return a key: smaller goes first; equal keys go in order of arrival."""
        ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Runs before nodes are filtered."""

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Narrow the nodes, refuse them all, or skip the plugin's filter."""
        ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Rejects nodes that cannot take the pod, with reasons."""

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterable[Rejection | Failure]:
        """Yield a rejection for each reason; rows in no rejection are feasible."""
        ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Runs when no node is feasible; preemption is one."""

    def post_filter(
        self, pod: Pod, nodes: NodeTable, diagnosis: Diagnosis, ask: "FilterQuestion"
    ) -> "Proposal | Refusal | Search":
        """Propose the victims of one node, or say why no preemption would help."""
        ...


Search = Generator[None, None, Proposal | Refusal]
"""A long search: at each ``yield`` the event loop serves sockets, and no fact is applied."""


class FilterQuestion(Protocol):
    """Runs the profile's filters on a table, mostly a what-if table.

    A row must be able to take the pod with the pods that are nominated to its node and without
    them, if they have the pod's priority or a higher one. Rows that a filter cannot judge come back
    as failures.
    """

    @property
    def memory(self) -> SearchMemory:
        """What the plugin found out about rows for earlier pods of the template, if it notes it."""
        ...

    def __call__(self, pod: Pod, nodes: NodeTable, /) -> Filtered:
        """Judge every row of *nodes*."""
        ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Ranks the nodes that remain."""

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Return one score a row; None where the plugin has nothing to say about the pod."""
        ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Reserves what a pod needs on the chosen node."""

    def reserve(self, pod: Pod, node: str, nodes: NodeTable) -> "Reserved":
        """Reserve what *pod* needs on *node*, or reject it.

        Objects to assume for the pods that follow are returned; the loop reverts those by itself.
        """
        ...

    def unreserve(self, pod: Pod, node: str) -> None:
        """Revert reserve; also called if this plugin's reserve was never called."""
        ...


Reserved = Reject | Failure | Sequence[Assume] | None
"""What a reserve plugin answers."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Decides when a pod with a chosen node is bound."""

    def permit(self, pod: Pod, node: str, waiting: Sequence[Pod]) -> PermitAnswer:
        """Allow *pod*, let it wait, or reject it; called again after every fact while it waits."""
        ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Prepares what must be true before a pod is bound."""

    def pre_bind(
        self, pod: Pod, node: str, nodes: NodeTable
    ) -> Iterable[Effect] | Awaitable[Iterable[Effect] | None]:
        """Return what must be done and waited for before *pod* is bound."""
        ...


def requeue_of(plugin: Plugin) -> Sequence[Requeue] | None:
    """Return the events that may help pods rejected by *plugin*; None means every event."""
    return getattr(plugin, "requeue_on", None)


def judges_changed_rows(plugin: Plugin) -> bool:
    """Tell whether *plugin* judges every row of a what-if table by that row's own changes."""
    return bool(getattr(plugin, "node_local", False) or getattr(plugin, "each_world", False))


def answers_by_template(plugin: Plugin) -> bool:
    """Tell whether *plugin* answers alike about all pods of a template, in the same cluster."""
    promises = judges_changed_rows(plugin) or bool(getattr(plugin, "scores_by_row", False))
    return promises and not getattr(plugin, "reads_identity", False)


def needs_of(plugin: Plugin) -> frozenset[str]:
    """Return the further resources that *plugin* reads, as in ``node.annotations``."""
    return frozenset(getattr(plugin, "needs", ()))


def patches_of(plugin: Plugin) -> frozenset[str]:
    """Return the resources that the effects of *plugin* patch; permissions follow from it."""
    return frozenset(getattr(plugin, "patches", ()))


Arguments = Mapping[str, object]
"""A plugin's arguments as written in the configuration."""
