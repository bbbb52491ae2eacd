"""Does a plugin keep its contract?

::

    def test_prefer_spot_keeps_the_contract():
        check_plugin(PreferSpot())

The plugin is asked about pods and clusters of all sorts, and what it answers is held against the
rules of ``docs/plugins.md``: one answer a row, in the right shape; the same answer to the same
question; rows in any order; every row its own world. What no test can see (clocks, requests, logs)
remains the author's word.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any, Final, NoReturn

import msgspec
import numpy as np

from scheduler.framework.cluster_event import Change, Requeue
from scheduler.framework.effects import Assume, Patch, PostBinding, WaitUntil
from scheduler.framework.plugin import judges_worlds
from scheduler.framework.rejection import (
    MAX_NODE_SCORE,
    Allow,
    Failure,
    Gate,
    Only,
    Refused,
    Reject,
    Rejection,
    Skip,
    Wait,
)
from scheduler.kube.watched import is_known
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing.builders import make_node, make_pod
from scheduler.testing.example_clusters import (
    Cluster,
    Interests,
    ListeningTable,
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


Reasons = frozenset[tuple[str, bool]]
"""Why a node cannot take a pod: reasons, and whether evicting pods could help."""


def check_plugin(plugin: object, *, pods: Iterable[Pod] = (), nodes: Iterable[Node] = ()) -> None:
    """Hold *plugin* to its contract.

    Args:
        plugin: The plugin, built.
        pods: Pods to ask about beside the usual ones: those that the plugin has something to say
            about, if only the author knows what they look like.
        nodes: Nodes to add to the usual ones, likewise.

    Raises:
        AssertionError: Naming the plugin and the rule that is broken.
    """
    examination = _Examination(plugin, (*make_pods(), *pods), tuple(nodes))
    examination.check_declarations()
    examination.listen()
    for cluster in examination.clusters():
        for pod in examination.pods:
            examination.check_about_nodes(pod, cluster)
    for pod in examination.pods:
        examination.check_every_row_its_own_world(pod)
        examination.check_about_the_pod(pod)
        examination.check_hints(pod)
    examination.check_order()


class _Examination:
    """One plugin under examination.

    Args:
        plugin: Whom to ask.
        pods: What to ask about.
        nodes: What the author adds to every cluster but the empty one.
    """

    def __init__(self, plugin: Any, pods: Sequence[Pod], nodes: Sequence[Node]) -> None:
        self._plugin = plugin
        self._name = getattr(plugin, "name", None) or type(plugin).__name__
        self._nodes = nodes
        self._interests = Interests()
        self._node_local = bool(getattr(plugin, "node_local", False))
        self.pods = pods

    def clusters(self) -> Iterable[Cluster]:
        """Yield clusters without a node, with one, with a few and with many."""
        yield Cluster()
        yield make_cluster(1, self._interests)
        yield make_cluster(_FEW, self._interests, self._nodes)
        yield make_cluster(_MANY, self._interests, self._nodes)

    def listen(self) -> None:
        """Find out which node labels the plugin reads."""
        table = make_cluster(_FEW, Interests()).table(
            lambda columns: ListeningTable(columns, self._interests)
        )
        for pod in self.pods:
            self._judgement(pod, table)
            self._raw_scores(pod, table)

    # What the plugin says about itself.

    def check_declarations(self) -> None:
        """Check the name, the methods and the optional attributes."""
        name = getattr(self._plugin, "name", None)
        if not isinstance(name, str) or not name:
            self._fail(f"it needs a name: a text, not {name!r}")
        if not any(self._serves(method) for method in _METHODS if method not in _BESIDES):
            self._fail("it serves no extension point; is a method misspelled?")
        if self._serves("reserve") and not self._serves("unreserve"):
            self._fail("it has reserve and no unreserve, which takes back what was noted")
        if isinstance(getattr(self._plugin, "needs", ()), str):
            self._fail("needs is one text; it is a list of them")
        for method in _METHODS:
            found = getattr(self._plugin, method, None)
            if iscoroutinefunction(found) or isasyncgenfunction(found):
                self._fail(f"{method} is async; plugins decide in plain functions")
        for need in getattr(self._plugin, "needs", ()):
            if not is_known(need):
                self._fail(f"needs names {need!r}, which nobody knows")
        for requeue in getattr(self._plugin, "requeue_on", None) or ():
            if not isinstance(requeue, Requeue):
                self._fail(f"requeue_on holds {requeue!r}, not a Requeue")

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
        if self._node_local:
            self._check_part(pod, table, about)
        if before != _frozen(pod, cluster):
            self._fail(f"it changed what it was given; asked about {about}")

    def _check_part(self, pod: Pod, table: NodeTable, about: str) -> None:
        """Hold verdicts and raw scores of some rows against those among all rows."""
        rows = np.arange(0, len(table), 2, dtype=np.intp)
        what = f"node_local is promised, but every second row among all and then alone, {about}"
        part = self._raw_answers(pod, table.select(rows))
        whole = self._raw_answers(pod, table)
        self._agree({name: whole[name] for name in part}, part, what)

    def _answers(self, pod: Pod, table: NodeTable) -> dict[str, tuple[object, ...]]:
        """Return verdict, raw and final score of every node, by name."""
        raw = self._raw_scores(pod, table)
        final = self._final_scores(pod, table, raw)
        return self._by_name(table, self._judgement(pod, table), raw, final)

    def _raw_answers(self, pod: Pod, table: NodeTable) -> dict[str, tuple[object, ...]]:
        """Return what must not depend on other rows, if the plugin is node-local."""
        return self._by_name(table, self._judgement(pod, table), self._raw_scores(pod, table))

    @staticmethod
    def _by_name(
        table: NodeTable, *columns: Sequence[object] | None
    ) -> dict[str, tuple[object, ...]]:
        rows = [[None] * len(table) if column is None else column for column in columns]
        return dict(zip(table.names, zip(*rows, strict=True), strict=True))

    def check_every_row_its_own_world(self, pod: Pod) -> None:
        """Hold a what-if table against clusters in which only one node really changed."""
        if not self._serves("filter"):
            return
        cluster = make_cluster(_FEW, self._interests, self._nodes)
        guest = make_pod("guest", requests="1 cpu, 2Gi", labels="app=web", host_ports=(8080,))
        table = cluster.table()
        coming = {row: [guest.on(name)] for row, name in enumerate(table.names)}
        self._check_worlds(pod, cluster, "with a pod more", table.each(adding=coming), coming, {})
        if not judges_worlds(self._plugin):
            return  # the runner shows it one world after the other
        there = {row: list(table.pods_on(row)) for row in range(len(table))}
        empty = table.each(removing=there)
        self._check_worlds(pod, cluster, "without its pods", empty, {}, there)
        back = {row: pods[:1] for row, pods in there.items()}
        gone = {row: pods[1:] for row, pods in there.items()}
        given_back = empty.each(adding=back)
        self._check_worlds(pod, cluster, "with one pod given back", given_back, {}, gone)

    def _check_worlds(
        self,
        pod: Pod,
        cluster: Cluster,
        what: str,
        worlds: NodeTable,
        coming: Mapping[int, Sequence[Pod]],
        gone: Mapping[int, Sequence[Pod]],
    ) -> None:
        """Hold each row of *worlds* against a cluster where only its node is *what* it says."""
        together = self._judgement(pod, worlds)
        for row, name in enumerate(worlds.names):
            changed = cluster.changed(coming.get(row, ()), gone.get(row, ()))
            alone = self._judgement(pod, changed.table())
            if together[row] != alone[row]:
                self._fail(
                    f"every row must be its own world: in a what-if table of nodes {what}, filter"
                    f" says {_told(together[row])} about {name}; in a cluster where only that"
                    f" changed, it says {_told(alone[row])} (pod {pod.name!r})"
                )

    # Filtering.

    def _judgement(self, pod: Pod, table: NodeTable) -> list[Reasons]:
        """Return why each row cannot take *pod*; nothing where it can."""
        allowed = np.ones(len(table), dtype=np.bool_)
        if self._serves("pre_filter"):
            match self._ask("pre_filter", pod, table):
                case None:
                    pass
                case Skip():
                    return [frozenset()] * len(table)
                case Refused(reason, resolvable):
                    self._check_reason("pre_filter", reason)
                    return [frozenset({(reason, resolvable)})] * len(table)
                case Only(names) if _are_names(names):
                    allowed = table.named(names)
                case Failure(text=text):
                    self._fail(f"pre_filter failed: {text}")
                case answer:
                    self._fail(
                        f"pre_filter answered {answer!r}; it is None, Skip(), Only(...),"
                        " Refused(...) or Failure(...)"
                    )
        found: list[set[tuple[str, bool]]] = [
            set() if inside else {("outside", False)} for inside in allowed.tolist()
        ]
        if self._serves("filter"):
            for answer in self._listed("filter", pod, table):
                self._note(answer, found)
        return [frozenset(each) for each in found]

    def _note(self, answer: object, found: list[set[tuple[str, bool]]]) -> None:
        rows = len(found)
        if not isinstance(answer, Rejection | Failure):
            self._fail(f"filter yielded {answer!r}, not a Rejection or Failure")
        self._check_column("filter", answer.nodes, np.bool_, rows)
        text = answer.reason if isinstance(answer, Rejection) else answer.text
        self._check_reason("filter", text)
        resolvable: object = answer.resolvable if isinstance(answer, Rejection) else False
        if not isinstance(resolvable, bool | np.bool_):
            self._check_column("filter", resolvable, np.bool_, rows, part="resolvable")
        helps = np.broadcast_to(np.asarray(resolvable), (rows,))
        for row in answer.nodes.nonzero()[0].tolist():
            found[row].add((text, bool(helps[row])))

    # Scoring.

    def _raw_scores(self, pod: Pod, table: NodeTable) -> list[int] | None:
        if not self._serves("score"):
            return None
        raw = self._ask("score", pod, table)
        if raw is None:
            return None
        self._check_column("score", raw, np.int64, len(table))
        scores: list[int] = raw.tolist()
        return scores

    def _final_scores(self, pod: Pod, table: NodeTable, raw: list[int] | None) -> list[int] | None:
        if raw is None:
            return None
        final = np.array(raw, dtype=np.int64)
        final.flags.writeable = False
        if getattr(self._plugin, "normalize", None) is not None:
            final = self._ask("normalize", final, pod, table)
            self._check_column("normalize", final, np.int64, len(table))
        for score in (final.min(), final.max()) if len(final) else ():
            if not 0 <= score <= MAX_NODE_SCORE:
                self._fail(
                    f"scored {score} for pod {pod.name!r}; scores are 0 to {MAX_NODE_SCORE}, or the"
                    " plugin names how they are normalised (normalize = PROPORTIONAL, ...)"
                )
        scores: list[int] = final.tolist()
        return scores

    # What it says about the pod.

    def check_about_the_pod(self, pod: Pod) -> None:
        """Ask what does not depend on all nodes."""
        if self._serves("pre_enqueue"):
            gate = self._ask("pre_enqueue", pod)
            if gate is not None and not isinstance(gate, Gate):
                self._fail(f"pre_enqueue answered {gate!r}; it is None or Gate(reason)")
            if isinstance(gate, Gate):
                self._check_reason("pre_enqueue", gate.reason)
            if gate != self._ask("pre_enqueue", pod):
                self._fail(f"pre_enqueue gave two answers about pod {pod.name!r}")
        if not (self._serves("reserve") or self._serves("permit") or self._serves("pre_bind")):
            return
        cluster = make_cluster(_FEW, self._interests, self._nodes)
        table = cluster.table()
        self._check_after_the_choice(pod, table.names[0], table)

    def _check_after_the_choice(self, pod: Pod, node: str, table: NodeTable) -> None:
        if self._serves("reserve"):
            self._ask("unreserve", pod, node)  # another plugin's reserve may have failed before
            answer = self._ask("reserve", pod, node, table)
            if not (answer is None or isinstance(answer, Reject | Failure) or _assumes(answer)):
                self._fail(
                    f"reserve answered {answer!r}; it is None, Reject(...), Failure(...) or a list"
                    " of Assume(...)"
                )
            self._ask("unreserve", pod, node)
        if self._serves("permit"):
            answer = self._ask("permit", pod, node, ())
            if not isinstance(answer, Allow | Wait | Reject):
                self._fail(f"permit answered {answer!r}; it is Allow(), Wait(...) or Reject(...)")
            if isinstance(answer, Wait) and answer.seconds <= 0:
                self._fail(f"permit wants to wait {answer.seconds} seconds")
            if isinstance(answer, Reject):
                self._check_reason("permit", answer.reason)
        if self._serves("pre_bind"):
            for effect in self._listed("pre_bind", pod, node, table):
                if not isinstance(effect, Patch | PostBinding | WaitUntil):
                    self._fail(f"pre_bind yielded {effect!r}, not an effect")

    def check_hints(self, pod: Pod) -> None:
        """Ask every hint about additions, updates and deletions, and about nobody at all."""
        old, new = make_node("n"), make_node("n", labels="disk=ssd", taints="a:NoSchedule")
        changed = make_pod(pod.name, labels="changed=yes")
        for requeue in getattr(self._plugin, "requeue_on", None) or ():
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
                change = Change(requeue.event, before, after)
                said = self._ask_of(requeue.hint, "a hint of requeue_on", pod, change)
                if not isinstance(said, bool | np.bool_):
                    self._fail(f"a hint of requeue_on answered {said!r}; it is true or false")

    def check_order(self) -> None:
        """Check that sort_key puts any pods in order."""
        if not self._serves("sort_key"):
            return
        keys = [self._ask("sort_key", pod) for pod in self.pods]
        if keys != [self._ask("sort_key", pod) for pod in self.pods]:
            self._fail("sort_key gave two answers about one pod")
        self._ask_of(sorted, "comparing the answers of sort_key", keys)

    # How it is asked, and what is said of it.

    def _serves(self, method: str) -> bool:
        return hasattr(type(self._plugin), method)

    def _listed(self, method: str, *question: object) -> list[object]:
        """Return what *method* yields; what it raises on the way counts too."""
        bound = getattr(self._plugin, method)
        answers: object = self._ask_of(lambda: _as_list(bound(*question)), method)
        if not isinstance(answers, list):
            self._fail(f"{method} answered {answers!r}, which nobody can iterate over")
        return answers

    def _ask(self, method: str, *question: object) -> Any:
        return self._ask_of(getattr(self._plugin, method), method, *question)

    def _ask_of(self, question: Callable[..., Any], what: str, *args: object) -> Any:
        try:
            return question(*args)
        except (Exception, SystemExit) as bug:
            hint = ""
            if "read-only" in str(bug):
                hint = " (arrays of a NodeTable belong to everybody: work on a copy)"
            message = f"{what} raised {type(bug).__name__}: {bug}{hint}"
            raise AssertionError(self._broken(message)) from bug

    def _check_column(
        self, method: str, found: object, kind: type, rows: int, part: str = ""
    ) -> None:
        what = f"{method}{' (' + part + ')' if part else ''}"
        words = "truth value" if kind is np.bool_ else "score"
        if not isinstance(found, np.ndarray):
            self._fail(f"{what} answered with {type(found).__name__}, not with one {words} a row")
        if found.shape != (rows,):
            self._fail(f"{what} answered in shape {found.shape} about {rows} rows")
        if found.dtype != kind:
            self._fail(f"{what} answered in {found.dtype}, not in {np.dtype(kind)}")

    def _check_reason(self, method: str, reason: object) -> None:
        if not isinstance(reason, str) or not reason.strip():
            self._fail(f"{method} gave {reason!r} for a reason; people will read it")

    def _agree(
        self, first: Mapping[str, object], second: Mapping[str, object], question: str
    ) -> None:
        for name, answer in first.items():
            if second[name] != answer:
                self._fail(
                    f"{question}: {name} was answered {_told(answer)}, then {_told(second[name])}"
                )

    def _broken(self, text: str) -> str:
        return f"plugin {self._name!r} breaks the contract: {text}"

    def _fail(self, text: str) -> NoReturn:
        raise AssertionError(self._broken(text))


def _as_list(answer: Any) -> object:
    return list(answer) if isinstance(answer, Iterable) else answer


def _frozen(pod: Pod, cluster: Cluster) -> bytes:
    """Return everything a plugin was given, so that a change shows."""
    return msgspec.json.encode((pod, cluster.nodes, cluster.placed))


def _told(answer: object) -> str:
    """Say an answer about one node in a few words."""
    if isinstance(answer, tuple):
        return ", ".join(_told(part) for part in answer if part is not None) or "nothing"
    if isinstance(answer, frozenset):
        said = sorted(f"{text!r}{'' if helps else ' for good'}" for text, helps in answer)
        return f"refused: {'; '.join(said)}" if said else "feasible"
    return f"score {answer}"


def _are_names(names: object) -> bool:
    return isinstance(names, AbstractSet | list | tuple) and all(
        isinstance(name, str) for name in names
    )


def _assumes(answer: object) -> bool:
    return isinstance(answer, Sequence) and all(isinstance(each, Assume) for each in answer)
