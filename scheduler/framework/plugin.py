"""The plugin contract: what a plugin can be asked.

A plugin is any object with a ``name`` and the methods of the extension points it serves; it
inherits nothing. All methods are plain functions: no clock, randomness, input, output or logs; same
question, same answer. Arrays it is given are read-only.

The points, in the order in which a pod meets them:

=================  ==============================================================================
``pre_enqueue``    may this pod enter the queue?
``sort_key``       which pod first? (one plugin a profile)
``pre_filter``     before nodes are judged: nothing to say, only these nodes, or no node at all
``filter``         which nodes cannot take the pod, and why
``post_filter``    no node can: how could room be made?
``score``          which of the remaining nodes are better, 0 to 100
``reserve``        a node is chosen: note what goes with it (``unreserve`` takes it back)
``permit``         now, later or not at all?
``pre_bind``       what must be done, as effects, before the pod is bound
=================  ==============================================================================

Optional attributes: ``node_local = True`` promises that a row's verdict and raw score depend on
that row, the pod and the plugin's arguments alone; ``each_world = True`` promises that in a
what-if table (``NodeTable.each``) a filter judges every row by that row's own world, as
``node_local`` does too: filters that promise neither are shown one world after the other.
``requeue_on`` names the events that could help a pod which the plugin rejected; ``needs`` names
what has to be read beyond the usual; ``patches`` names, in the same words, what the effects of
``pre_bind`` patch; ``pre_bind_seconds`` how long an asynchronous ``pre_bind`` of a plugin by a user
may take; ``normalize`` says how raw scores become 0 to 100; ``knows_schedulers = True``
asks the constructor's keyword *schedulers* to be given the scheduler names of all profiles.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from scheduler.framework.cluster_event import Requeue
from scheduler.framework.diagnosis import Diagnosis, Filtered
from scheduler.framework.effects import Assume, Effect
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
    """Keeps pods out of the queue."""

    def pre_enqueue(self, pod: Pod) -> Gate | None:
        """Tell why *pod* must wait outside; None lets it in."""
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
    """Speaks before nodes are judged."""

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        """Narrow the nodes, refuse them all, or skip the plugin's filter."""
        ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Says which nodes cannot take the pod, and why."""

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterable[Rejection | Failure]:
        """Yield a rejection for each reason; rows in no rejection are feasible."""
        ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Finds a way to make room when no node is feasible."""

    def post_filter(
        self, pod: Pod, nodes: NodeTable, diagnosis: Diagnosis, ask: "FilterQuestion"
    ) -> "Proposal | Refusal | Search":
        """Propose whom to evict from which node, or say why that is no use."""
        ...


Search = Generator[None, None, Proposal | Refusal]
"""An answer that takes its time: at each ``yield`` sockets are served, and no fact is applied."""


FilterQuestion = Callable[[Pod, NodeTable], Filtered]
"""Asks the profile's filters about a table, a what-if table mostly.

Pods that are nominated to a row's node, and as important as the pod, are taken to be there: the row
must be able to take the pod with them and without. What a filter cannot judge comes back as a
failure.
"""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Ranks the nodes that remain."""

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Return one score a row; None where the plugin has nothing to say about the pod."""
        ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Notes what goes with a chosen node."""

    def reserve(self, pod: Pod, node: str, nodes: NodeTable) -> "Reserved":
        """Note that *pod* goes to *node*, or turn it away.

        What other pods must see from now on is returned; the loop takes it back by itself.
        """
        ...

    def unreserve(self, pod: Pod, node: str) -> None:
        """Take back what reserve noted; called also if this plugin's reserve was never reached."""
        ...


Reserved = Reject | Failure | Sequence[Assume] | None
"""What a reserve plugin answers."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Decides when a placed pod is bound."""

    def permit(self, pod: Pod, node: str, waiting: Sequence[Pod]) -> PermitAnswer:
        """Allow, hold or reject *pod*; asked again on every fact while the pod is held."""
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
    """Return what may help pods rejected by *plugin*; None where it does not say (anything may)."""
    return getattr(plugin, "requeue_on", None)


def judges_worlds(plugin: Plugin) -> bool:
    """Tell whether *plugin* judges every row of a what-if table by the row's own world."""
    return bool(getattr(plugin, "node_local", False) or getattr(plugin, "each_world", False))


def needs_of(plugin: Plugin) -> frozenset[str]:
    """Return what *plugin* reads beyond the usual, as in ``node.annotations``."""
    return frozenset(getattr(plugin, "needs", ()))


def patches_of(plugin: Plugin) -> frozenset[str]:
    """Return the resources that the effects of *plugin* patch; permissions follow from it."""
    return frozenset(getattr(plugin, "patches", ()))


Arguments = Mapping[str, object]
"""A plugin's arguments as written in the configuration."""
