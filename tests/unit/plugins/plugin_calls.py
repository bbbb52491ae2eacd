"""Calls one plugin as the framework does, and returns its answers by node."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.framework.cluster_event import Action, Change, ClusterEvent
from scheduler.framework.rejection import Failure, Only, Refused, Skip
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.snapshot.columns import ClusterColumns
from scheduler.snapshot.node_table import NodeTable

OK, U, UAU, E = "ok", "U", "UAU", "E"


def columns_of(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> ClusterColumns:
    """Put *nodes* in rows, and *pods* on the nodes that they name."""
    columns = ClusterColumns()
    for node in nodes:
        columns.add_node(node)
    for pod in pods:
        columns.add_pod(columns.rows[pod.node_name], pod)
    return columns


def table_of(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> NodeTable:
    return NodeTable(columns_of(nodes, pods))


def answers(plugin: Any, pod: Pod, nodes: NodeTable) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return ``ok``, ``U``, ``UAU`` or ``E`` with all reasons, by node."""
    first = plugin.pre_filter(pod, nodes) if hasattr(plugin, "pre_filter") else None
    reasons: dict[str, list[str]] = {name: [] for name in nodes.names}
    unresolvable = np.zeros(len(nodes), dtype=np.bool_)
    if isinstance(first, Refused):
        return dict.fromkeys(nodes.names, (U if first.resolvable else UAU, (first.reason,)))
    if isinstance(first, Failure):
        return dict.fromkeys(nodes.names, (E, (first.text,)))
    failed: dict[int, str] = {}
    if not isinstance(first, Skip):
        for rejection in plugin.filter(pod, nodes):
            assert rejection.nodes.dtype == np.bool_
            assert rejection.nodes.shape == (len(nodes),)
            if isinstance(rejection, Failure):
                failed |= dict.fromkeys(rejection.nodes.nonzero()[0].tolist(), rejection.text)
                continue
            unresolvable |= rejection.nodes & ~np.bool_(rejection.resolvable)
            for row in rejection.nodes.nonzero()[0].tolist():
                reasons[nodes.names[row]].append(rejection.reason)
    if isinstance(first, Only):
        for name in set(reasons) - first.names:
            reasons[name], unresolvable[nodes.row_of(name)] = ["not named"], True
    codes = np.where(unresolvable, UAU, U)
    return {
        name: (E, (failed[row],))
        if row in failed
        else (str(codes[row]) if reasons[name] else OK, tuple(reasons[name]))
        for row, name in enumerate(nodes.names)
    }


def codes(plugin: Any, pod: Pod, nodes: NodeTable) -> list[str]:
    """Return ``ok``, ``U``, ``UAU`` or ``E``, in the order of the rows."""
    return [code for code, _ in answers(plugin, pod, nodes).values()]


def scores(plugin: Any, pod: Pod, nodes: NodeTable) -> list[int] | None:
    """Return the plugin's scores from 0 to 100, in the order of the rows."""
    raw = plugin.score(pod, nodes)
    if raw is None:
        return None
    assert raw.dtype == np.int64
    normalize = getattr(plugin, "normalize", None)
    found = raw if normalize is None else normalize(raw, pod, nodes)
    assert found.dtype == np.int64
    return found.tolist()


def wakes(
    plugin: Any, pod: Pod, resource: str, action: Action, old: Any = None, new: Any = None
) -> bool:
    """Tell whether an event makes the queue try *pod* again, which *plugin* had rejected."""
    event = ClusterEvent(resource, action)
    interested = [requeue for requeue in plugin.requeue_on if requeue.event.covers(event)]
    return any(
        requeue.hint is None or requeue.hint(pod, Change(event, old, new)) for requeue in interested
    )


def ids(cases: Sequence[Sequence[Any]]) -> list[str]:
    """Return the first column of a table, which names the case."""
    return [str(case[0]) for case in cases]


def added_to(objects: Mapping[Any, Iterable[Any]], columns: ClusterColumns) -> ClusterColumns:
    """Add objects, by resource, to *columns*."""
    for resource, items in objects.items():
        for item in items:
            columns.objects.put(resource, item)
    return columns
