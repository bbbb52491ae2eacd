"""Checks a plugin against the contract.

::

    def test_prefer_spot_keeps_the_contract():
        check_plugin(PreferSpot())

The plugin is called for pods and clusters of many kinds, and its answers are checked against the
rules of ``docs/plugins.md``: one value for each row, in the right shape; equal answers to equal
calls, in any order of the rows; each row of a what-if table judged as if only that node had
changed. What no test can observe (clocks, requests, logs) is not checked.
"""

from collections.abc import Iterable, Mapping, Sequence
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any, Final

import msgspec
import numpy as np

from scheduler.framework.cluster_event import Change, Requeue
from scheduler.framework.plugin import answers_by_template, judges_changed_rows
from scheduler.kube.watched import is_known
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.out_of_tree.stall_timer import StallTimer
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing.builders import make_node, make_pod
from scheduler.testing.checked_plugin import CheckedPlugin
from scheduler.testing.example_clusters import (
    Cluster,
    Interests,
    RecordingTable,
    make_cluster,
    make_pods,
)

_FEW: Final = 8
_MANY: Final = 240
_METHODS: Final = (
    *("pre_enqueue", "sort_key", "pre_filter", "filter", "post_filter", "score", "normalize"),
    *("reserve", "unreserve", "permit", "pre_bind"),
)
_BESIDES: Final = frozenset({"normalize", "unreserve"})
"""Methods that make no extension point by themselves."""


def check_plugin(plugin: object, *, pods: Iterable[Pod] = (), nodes: Iterable[Node] = ()) -> None:
    """Check *plugin* against the contract.

    Args:
        plugin: The plugin, built.
        pods: Pods to ask about beside the usual ones: those that the plugin has something to say
            about, if only the author knows what they look like.
        nodes: Nodes to add to the usual ones, likewise.

    Raises:
        AssertionError: Naming the plugin and the rule that is broken.
    """
    timer = StallTimer()
    with timer.borrowed():
        _examine(
            _Examination(plugin, CheckedPlugin(plugin, timer), (*make_pods(), *pods), tuple(nodes))
        )


def _examine(examination: "_Examination") -> None:
    examination.check_declarations()
    examination.record_labels()
    for cluster in examination.clusters():
        for pod in examination.pods:
            examination.check_about_nodes(pod, cluster)
    for pod in examination.pods:
        examination.check_rows_are_independent(pod)
        examination.check_about_the_pod(pod)
        examination.check_hints(pod)
    examination.check_order()


def _another_of_its_template(pod: Pod) -> Pod:
    """Return a pod that differs from *pod* in identity, times and status alone."""
    generated = any(claim.generated for claim in pod.claims)
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=pod.name if generated else f"{pod.name}-2",
        uid=f"{pod.uid}-2",
        resource_version="99",
        creation_timestamp="2031-01-01T00:00:00Z",
    )
    status = msgspec.structs.replace(pod.status, message="another")
    another = msgspec.structs.replace(pod, metadata=metadata, status=status)
    assert another.template_key == pod.template_key, f"{pod.key} is of another template"
    return another


class _Examination:
    """One plugin under examination.

    Args:
        plugin: The plugin itself.
        checked: Calls its methods.
        pods: The pods to call it with.
        nodes: What the author adds to every cluster but the empty one.
    """

    def __init__(
        self, plugin: Any, checked: CheckedPlugin, pods: Sequence[Pod], nodes: Sequence[Node]
    ) -> None:
        self._plugin = plugin
        self._checked = checked
        self._nodes = nodes
        self._interests = Interests()
        self.pods = pods

    def clusters(self) -> Iterable[Cluster]:
        """Yield clusters without a node, with one, with a few and with many."""
        yield Cluster()
        yield make_cluster(1, self._interests)
        yield make_cluster(_FEW, self._interests, self._nodes)
        yield make_cluster(_MANY, self._interests, self._nodes)

    def record_labels(self) -> None:
        """Find out which node labels the plugin reads."""
        table = make_cluster(_FEW, Interests()).table(
            lambda columns: RecordingTable(columns, self._interests)
        )
        for pod in self.pods:
            self._checked.verdicts(pod, table)
            self._checked.raw_scores(pod, table)

    # What the plugin says about itself.

    def check_declarations(self) -> None:
        """Check the name, the methods and the optional attributes."""
        name = self._checked.declared("name")
        if not isinstance(name, str) or not name:
            self._checked.fail(f"it needs a name: a text, not {name!r}")
        if not any(self._checked.has(method) for method in _METHODS if method not in _BESIDES):
            self._checked.fail("it serves no extension point; is a method misspelled?")
        if self._checked.has("reserve") and not self._checked.has("unreserve"):
            self._checked.fail("it has reserve and no unreserve, which takes back what was noted")
        if isinstance(self._checked.declared("needs", ()), str):
            self._checked.fail("needs is one text; it is a list of them")
        for method in _METHODS:
            found = self._checked.declared(method)
            if method == "pre_bind" and iscoroutinefunction(found):
                continue  # it may act, and is not called here
            if iscoroutinefunction(found) or isasyncgenfunction(found):
                self._checked.fail(f"{method} is async; plugins decide in plain functions")
        for need in self._checked.declared("needs", ()):
            if not is_known(need):
                self._checked.fail(f"needs names {need!r}, which nobody knows")
        for requeue in self._checked.declared("requeue_on") or ():
            if not isinstance(requeue, Requeue):
                self._checked.fail(f"requeue_on holds {requeue!r}, not a Requeue")

    # What it says about nodes.

    def check_about_nodes(self, pod: Pod, cluster: Cluster) -> None:
        """Ask filter and score about *cluster*, again, shuffled, and about a part of it."""
        table = cluster.table()
        about = f"pod {pod.name!r} and {len(table)} nodes"
        before = _frozen(pod, cluster)
        first = self._answers(pod, table)
        self._agree(first, self._answers(pod, table), f"the same question twice, {about}")
        mixed = self._answers(pod, cluster.shuffled().table())
        self._agree(first, mixed, f"rows in another order, {about}")
        if self._checked.declared("node_local"):
            self._check_part(pod, table, about)
        if answers_by_template(self._plugin):
            what = f"one pod and another of its template, {about}"
            self._agree(first, self._answers(_another_of_its_template(pod), table), what)
        if before != _frozen(pod, cluster):
            self._checked.fail(f"it changed what it was given; asked about {about}")

    def _check_part(self, pod: Pod, table: NodeTable, about: str) -> None:
        """Compare verdicts and raw scores of some rows alone with those among all rows."""
        rows = np.arange(0, len(table), 2, dtype=np.intp)
        what = f"node_local is promised, but every second row among all and then alone, {about}"
        part = self._raw_answers(pod, table.select(rows))
        whole = self._raw_answers(pod, table)
        self._agree({name: whole[name] for name in part}, part, what)

    def _answers(self, pod: Pod, table: NodeTable) -> dict[str, tuple[object, ...]]:
        """Return verdict, raw and final score of every node, by name."""
        raw = self._checked.raw_scores(pod, table)
        final = self._checked.final_scores(pod, table, raw)
        return self._by_name(table, self._checked.verdicts(pod, table), raw, final)

    def _raw_answers(self, pod: Pod, table: NodeTable) -> dict[str, tuple[object, ...]]:
        """Return what must not depend on other rows, if the plugin is node-local."""
        return self._by_name(
            table, self._checked.verdicts(pod, table), self._checked.raw_scores(pod, table)
        )

    @staticmethod
    def _by_name(
        table: NodeTable, *columns: Sequence[object] | None
    ) -> dict[str, tuple[object, ...]]:
        rows = [[None] * len(table) if column is None else column for column in columns]
        return dict(zip(table.names, zip(*rows, strict=True), strict=True))

    def check_rows_are_independent(self, pod: Pod) -> None:
        """Compare a what-if table with clusters in which only one node really changed."""
        if not self._checked.has("filter"):
            return
        cluster = make_cluster(_FEW, self._interests, self._nodes)
        guest = make_pod("guest", requests="1 cpu, 2Gi", labels="app=web", host_ports=(8080,))
        table = cluster.table()
        coming = {row: [guest.on(name)] for row, name in enumerate(table.names)}
        self._check_what_if(pod, cluster, "with a pod more", table.each(adding=coming), coming, {})
        if not judges_changed_rows(self._plugin):
            return  # the runner calls it for one changed row at a time
        there = {row: list(table.pods_on(row)) for row in range(len(table))}
        empty = table.each(removing=there)
        self._check_what_if(pod, cluster, "without its pods", empty, {}, there)
        back = {row: pods[:1] for row, pods in there.items()}
        gone = {row: pods[1:] for row, pods in there.items()}
        given_back = empty.each(adding=back)
        self._check_what_if(pod, cluster, "with one pod given back", given_back, {}, gone)

    def _check_what_if(
        self,
        pod: Pod,
        cluster: Cluster,
        what: str,
        table: NodeTable,
        coming: Mapping[int, Sequence[Pod]],
        gone: Mapping[int, Sequence[Pod]],
    ) -> None:
        """Compare each row of *table* with a cluster in which only its node changed."""
        together = self._checked.verdicts(pod, table)
        for row, name in enumerate(table.names):
            changed = cluster.changed(coming.get(row, ()), gone.get(row, ()))
            alone = self._checked.verdicts(pod, changed.table())
            if together[row] != alone[row]:
                self._checked.fail(
                    f"every row must be its own world: in a what-if table of nodes {what}, filter"
                    f" says {_in_words(together[row])} about {name}; in a cluster where only that"
                    f" changed, it says {_in_words(alone[row])} (pod {pod.name!r})"
                )

    # What it says about the pod.

    def check_about_the_pod(self, pod: Pod) -> None:
        """Ask what does not depend on all nodes."""
        checked = self._checked
        if checked.has("pre_enqueue") and checked.gate(pod) != checked.gate(pod):
            checked.fail(f"pre_enqueue gave two answers about pod {pod.name!r}")
        if not any(checked.has(method) for method in ("reserve", "permit", "pre_bind")):
            return
        table = make_cluster(_FEW, self._interests, self._nodes).table()
        node = table.names[0]
        if checked.has("reserve"):
            checked.reserve(pod, node, table)
        if checked.has("permit"):
            checked.permit(pod, node)
        if checked.has("pre_bind") and not iscoroutinefunction(checked.declared("pre_bind")):
            checked.pre_bind(pod, node, table)

    def check_hints(self, pod: Pod) -> None:
        """Ask every hint about additions, updates and deletions, and about nobody at all."""
        old, new = make_node("n"), make_node("n", labels="disk=ssd", taints="a:NoSchedule")
        changed = make_pod(pod.name, labels="changed=yes")
        for requeue in self._checked.declared("requeue_on") or ():
            if requeue.hint is None:
                continue
            for before, after in (
                (None, None),
                (None, new),
                (old, new),
                (new, old),
                (old, None),
                (pod, changed),
                (None, changed),
                (changed, None),
            ):
                self._checked.hint(requeue.hint, pod, Change(requeue.event, before, after))

    def check_order(self) -> None:
        """Check that sort_key puts any pods in order."""
        if not self._checked.has("sort_key"):
            return
        keys = self._checked.sort_keys(self.pods)
        if keys != self._checked.sort_keys(self.pods):
            self._checked.fail("sort_key gave two answers about one pod")
        self._checked.put_in_order(keys)

    def _agree(
        self, first: Mapping[str, object], second: Mapping[str, object], question: str
    ) -> None:
        for name, answer in first.items():
            if second[name] != answer:
                self._checked.fail(
                    f"{question}: {name} was answered {_in_words(answer)},"
                    f" then {_in_words(second[name])}"
                )


def _frozen(pod: Pod, cluster: Cluster) -> bytes:
    """Return everything a plugin was given, so that a change shows."""
    return msgspec.json.encode((pod, cluster.nodes, cluster.placed))


def _in_words(answer: object) -> str:
    """Return an answer about one node in a few words."""
    if isinstance(answer, tuple):
        return ", ".join(_in_words(part) for part in answer if part is not None) or "nothing"
    if isinstance(answer, frozenset):
        said = sorted(f"{text!r}{'' if helps else ' for good'}" for text, helps in answer)
        return f"refused: {'; '.join(said)}" if said else "feasible"
    return f"score {answer}"
