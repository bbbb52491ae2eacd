"""Runs the pre-filter and filter plugins of a profile.

Every row is judged. The first plugin that rejects a row is blamed for it, with all its reasons;
later plugins are not blamed for that row.

Source: ``pkg/scheduler/schedule_one.go`` (findNodesThatFitPod) and
``framework/runtime/framework.go`` (RunPreFilterPlugins, RunFilterPlugins).
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.errors import PluginError
from scheduler.framework.diagnosis import Diagnosis, Filtered, Verdict
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, judges_changed_rows
from scheduler.framework.profile import Profile
from scheduler.framework.rejection import (
    Failure,
    NodeMask,
    Only,
    PreFilterAnswer,
    Refused,
    Rejection,
    Skip,
)
from scheduler.model.pod import Pod
from scheduler.snapshot.node_table import NodeTable


@dataclass(frozen=True, slots=True, eq=False)
class PreFilterResult:
    """The combined answers of the pre-filter plugins.

    Args:
        only: The rows that filters judge; None for every row.
        narrowed_by: The plugins that named rows.
        skipped: Plugins whose filter is not needed for the pod.
        refused: The answer that refuses every row at once.
        refused_by: The plugins that gave it.
        unasked: Plugins that come after it in the profile, and were not called.
    """

    only: NodeMask | None = None
    narrowed_by: tuple[str, ...] = ()
    skipped: frozenset[str] = frozenset()
    refused: Refused | None = None
    refused_by: frozenset[str] = frozenset()
    unasked: frozenset[str] = frozenset()


def ask_pre_filter(
    plugin: PreFilterPlugin, pod: Pod, nodes: NodeTable, observer: Observer
) -> PreFilterAnswer:
    """Call one pre-filter plugin."""
    answer = call_plugin("PreFilter", plugin.name, observer, _pre_filter_answer, plugin, pod, nodes)
    if not isinstance(answer, Skip):
        observer.evaluated("PreFilter", plugin.name, 1)
    return answer


def run_pre_filters(
    plugins: Sequence[PreFilterPlugin],
    pod: Pod,
    nodes: NodeTable,
    observer: Observer,
    ask: Callable[[PreFilterPlugin, Pod, NodeTable, Observer], PreFilterAnswer] = ask_pre_filter,
) -> PreFilterResult:
    """Call every pre-filter plugin for *pod*, and combine their answers.

    Those behind a final refusal are not called. *ask* gets the answer of one plugin.

    Raises:
        PluginError: If one fails.
    """
    named: frozenset[str] | None = None
    narrowed_by: list[str] = []
    skipped: set[str] = set()
    refused: tuple[Refused, str] | None = None
    unasked: frozenset[str] = frozenset()
    for following, plugin in enumerate(plugins, 1):
        answer = ask(plugin, pod, nodes, observer)
        match answer:
            case None:
                pass
            case Skip():
                skipped.add(plugin.name)
            case Refused(resolvable=resolvable):
                refused = answer, plugin.name
                # Upstream stops at UnschedulableAndUnresolvable only: after a plain Unschedulable
                # a later plugin may still find that eviction cannot help.
                if not resolvable:
                    unasked = _names(plugins[following:])
                    break
            case Only(names=names):
                named = names if named is None else named & names
                narrowed_by.append(plugin.name)
                # Upstream intersects names, not nodes: names of nodes that do not exist count.
                if not named:
                    return PreFilterResult(
                        only=nodes.named(named),
                        refused=Refused(_nothing_left(narrowed_by), resolvable=False),
                        refused_by=frozenset(narrowed_by),
                        unasked=_names(plugins[following:]),
                    )
            case Failure(text=text):
                raise PluginError(plugin.name, f"failed in PreFilter: {text}")
    return PreFilterResult(
        None if named is None else nodes.named(named),
        tuple(narrowed_by),
        frozenset(skipped),
        refused[0] if refused else None,
        frozenset({refused[1], *(narrowed_by if refused[0].resolvable else ())} if refused else ()),
        unasked,
    )


def _names(plugins: Sequence[PreFilterPlugin]) -> frozenset[str]:
    return frozenset(plugin.name for plugin in plugins)


def _pre_filter_answer(plugin: PreFilterPlugin, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
    """Return the answer of *plugin*, checked within its call: a ``repr`` is the plugin's code."""
    answer: object = plugin.pre_filter(pod, nodes)
    match answer:
        case None | Skip() | Failure(text=str()):
            return answer
        case Refused(str() as reason) if reason:
            return answer
        case Only(names) if _are_names(names):
            return Only(frozenset(names))
    raise PluginError(plugin.name, f"answered PreFilter with {answer!r}")


def _are_names(names: object) -> bool:
    """Tell whether *names* are names; a list or tuple is as good as a set."""
    return isinstance(names, AbstractSet | list | tuple) and all(
        isinstance(name, str) for name in names
    )


def _nothing_left(plugins: Sequence[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def outside(pre_filtered: PreFilterResult) -> str:
    """Return the reason of the rows that pre-filters did not name."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(pre_filtered.narrowed_by))}]"


def filter_nodes(
    profile: Profile,
    pre_filtered: PreFilterResult,
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Filtered:
    """Judge the rows that the pre-filter plugins left, as `run_filters` does.

    Raises:
        PluginError: If a plugin fails, or could not judge a row that no other refused.
    """
    if pre_filtered.only is not None:
        return _filter_named(profile, pre_filtered, pod, nodes, nominated, observer)
    with observer.extension_point("Filter"):
        filtered = run_filters(
            profile.filter, pre_filtered.skipped, pod, nodes, nominated, observer
        )
        if filtered.failures:
            filtered.raise_failure()
        return filtered


def _filter_named(
    profile: Profile,
    pre_filtered: PreFilterResult,
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Filtered:
    """Judge the rows that pre-filters named, and nothing else."""
    assert pre_filtered.only is not None
    rows = pre_filtered.only.nonzero()[0]
    if not len(rows):
        return Filtered(pre_filtered.only, ())
    at = {int(row): index for index, row in enumerate(rows)}
    inner = filter_nodes(
        profile,
        PreFilterResult(skipped=pre_filtered.skipped),
        pod,
        nodes.select(rows),
        {at[row]: pods for row, pods in nominated.items() if row in at},
        observer,
    )
    assert len(inner.feasible) == len(rows)
    feasible = np.zeros(len(nodes), dtype=np.bool_)
    feasible[rows] = inner.feasible
    return Filtered(feasible, tuple(verdict.among(rows, len(nodes)) for verdict in inner.verdicts))


@dataclass(slots=True, eq=False)
class Judged:
    """The combined answers of the filters that have run so far."""

    feasible: NodeMask
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[tuple[str, Failure]] = field(default_factory=list)

    def add(self, plugin: str, answers: Sequence[Rejection | Failure]) -> None:
        """Add the answers of one plugin.

        It is blamed for the rows that were feasible before, with each of its reasons.
        """
        before = self.feasible.copy()
        failures = []
        for answer in answers:
            blamed = answer.nodes & before
            if not blamed.any():
                continue
            if isinstance(answer, Failure):
                failures.append(answer)
            else:
                self.reject(plugin, answer.reason, blamed, answer.resolvable)
        # Failures come last: a row that the same plugin rejects as well counts as rejected.
        for failure in failures:
            unjudged = failure.nodes & self.feasible
            if unjudged.any():
                self.failures.append((plugin, Failure(unjudged, failure.text)))
                self.feasible &= ~unjudged

    def reject(
        self, plugin: str, reason: str, nodes: NodeMask, resolvable: NodeMask | bool
    ) -> None:
        """Blame *plugin* for *nodes*."""
        self.feasible &= ~nodes
        self.verdicts.append(Verdict(plugin, reason, nodes, nodes & resolvable))


def judged_closed(nodes: NodeTable) -> Judged:
    """Return the judgement on *nodes* before any filter runs: closed rows are rejected."""
    judged = Judged(np.ones(len(nodes), dtype=np.bool_))
    for row, why in nodes.closed.items():
        judged.reject("", why, _mask_of(row, len(nodes)), resolvable=False)
    return judged


def run_filters(
    plugins: Sequence[FilterPlugin],
    skipped: frozenset[str],
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Filtered:
    """Call every filter for every row of *nodes*, and collect the rows that one could not judge.

    A row with *nominated* pods must be able to take *pod* with them and without.

    Raises:
        PluginError: If a plugin fails.
    """
    if nominated:
        return _run_filters_twice(plugins, skipped, pod, nodes, nominated, observer)
    judged = judged_closed(nodes)
    is_what_if = nodes.is_what_if  # once: it is the same for all plugins, and this path is hot
    for plugin in plugins:
        if plugin.name in skipped:
            continue
        if is_what_if and not judges_changed_rows(plugin):
            answers = _run_row_by_row(plugin, pod, nodes, judged.feasible, observer)
        else:
            answers = call_plugin(
                "Filter", plugin.name, observer, _filter_answers, plugin, pod, nodes
            )
            observer.evaluated("Filter", plugin.name, len(nodes))
        if answers:
            judged.add(plugin.name, answers)
        # Upstream, too, runs no further plugin on a node that one has rejected.
        if not judged.feasible.any():
            break
    return Filtered(judged.feasible, tuple(judged.verdicts), tuple(judged.failures))


def _run_filters_twice(
    plugins: Sequence[FilterPlugin],
    skipped: frozenset[str],
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Filtered:
    """Run the filters with the nominated pods present, then without where that succeeded.

    A nominated pod may be bound there or not. With it, resources may be short; without it, pod
    affinity may be unmet. (Upstream: RunFilterPluginsWithNominatedPods.)
    """
    crowded = nodes.each(adding=nominated)
    present = run_filters(plugins, skipped, pod, crowded, {}, observer)
    rows = np.array([row for row in nominated if present.feasible[row]], dtype=np.intp)
    if not len(rows):
        return present
    absent = run_filters(plugins, skipped, pod, nodes.select(rows), {}, observer)
    return narrow(present, absent, rows)


def _filter_answers(plugin: FilterPlugin, pod: Pod, nodes: NodeTable) -> list[Rejection | Failure]:
    """Return all that *plugin* answers: a filter may be a generator, which runs here.

    The answers are checked within the plugin's call, so that it is blamed for wrong ones.
    """
    answers = list(plugin.filter(pod, nodes))
    for answer in answers:
        _check(plugin.name, answer, len(nodes))
    return answers


def _run_row_by_row(
    plugin: FilterPlugin, pod: Pod, nodes: NodeTable, feasible: NodeMask, observer: Observer
) -> list[Rejection | Failure]:
    """Call a filter that reads more than its row for each changed row of a what-if table.

    It would otherwise see a cluster in which every row's change has happened at once.
    """
    changed = nodes.changed
    answers: list[Rejection | Failure] = []
    if (feasible & ~changed).any():
        answers += (
            replace(answer, nodes=answer.nodes & ~changed)
            for answer in ask_filter(plugin, pod, nodes.unchanged, observer)
        )
    for row in (feasible & changed).nonzero()[0].tolist():
        cluster = nodes.cluster_of(row)
        there = cluster.row_of(nodes.names[row])
        assert there is not None, "the row is not in its own cluster"  # None would index a new axis
        mask = _mask_of(row, len(nodes))
        for answer in ask_filter(plugin, pod, cluster, observer):
            if not answer.nodes[there]:
                continue
            if isinstance(answer, Failure):
                answers.append(Failure(mask, answer.text))
            else:
                resolvable = np.broadcast_to(answer.resolvable, len(cluster))[there]
                answers.append(Rejection(mask, answer.reason, bool(resolvable)))
    return answers


def ask_filter(
    plugin: FilterPlugin, pod: Pod, nodes: NodeTable, observer: Observer
) -> list[Rejection | Failure]:
    """Call one filter plugin for every row of *nodes*."""
    answers = call_plugin("Filter", plugin.name, observer, _filter_answers, plugin, pod, nodes)
    observer.evaluated("Filter", plugin.name, len(nodes))
    return answers


def _check(plugin: str, answer: object, rows: int) -> None:
    """Raise PluginError unless *answer* has a mask over the rows, and a reason."""
    if not isinstance(answer, Rejection | Failure):
        raise PluginError(plugin, f"yielded {answer!r} from filter, not a Rejection or Failure")
    nodes: object = answer.nodes
    if not isinstance(nodes, np.ndarray) or nodes.shape != (rows,) or nodes.dtype != np.bool_:
        raise PluginError(plugin, f"did not answer with one truth value for each of {rows} rows")
    if isinstance(answer, Failure):
        return
    reason: object = answer.reason
    if not isinstance(reason, str) or not reason:
        raise PluginError(plugin, "refused nodes without giving a reason")
    resolvable: object = answer.resolvable
    if not isinstance(resolvable, bool | np.bool_) and not (
        isinstance(resolvable, np.ndarray)
        and resolvable.shape == (rows,)
        and resolvable.dtype == np.bool_
    ):
        raise PluginError(
            plugin, f"did not answer with one truth value, or {rows} of them, for resolvable"
        )


def narrow(filtered: Filtered, further: Filtered, rows: "np.typing.NDArray[np.intp]") -> Filtered:
    """Return *filtered*, narrowed by what was found *further* about its feasible *rows*."""
    assert len(further.feasible) == len(rows)
    assert filtered.feasible[rows].all()
    feasible = filtered.feasible.copy()
    feasible[rows] = further.feasible
    said = tuple(verdict.among(rows, len(feasible)) for verdict in further.verdicts)
    failed = []
    for plugin, failure in further.failures:
        mask = np.zeros(len(feasible), dtype=np.bool_)
        mask[rows] = failure.nodes
        failed.append((plugin, Failure(mask, failure.text)))
    return Filtered(feasible, filtered.verdicts + said, filtered.failures + tuple(failed))


def diagnose(
    nodes: NodeTable, pre_filtered: PreFilterResult, filtered: Filtered | None
) -> Diagnosis:
    """Return why no row of *nodes* can take the pod."""
    if filtered is None:
        assert pre_filtered.refused is not None
        assert pre_filtered.refused_by  # without a plugin to blame no event would wake the pod
        return Diagnosis(
            names=tuple(nodes.names),
            pre_filter=pre_filtered.refused.reason,
            absent=pre_filtered.refused.reason,
            rejected_by=pre_filtered.refused_by,
            unasked=pre_filtered.unasked,
            nodes=len(nodes),
            preemption_may_help=np.full(len(nodes), pre_filtered.refused.resolvable),
        )
    blamed = {verdict.plugin for verdict in filtered.verdicts if verdict.plugin}
    return Diagnosis(
        names=tuple(nodes.names),
        verdicts=filtered.verdicts,
        absent=outside(pre_filtered) if pre_filtered.only is not None else "",
        rejected_by=frozenset(blamed | set(pre_filtered.narrowed_by)),
        nodes=len(nodes),
        preemption_may_help=_may_help(filtered.verdicts, len(nodes)),
    )


def _may_help(verdicts: Sequence[Verdict], rows: int) -> NodeMask:
    """Return the rejected rows that evictions may help: every reason against them is resolvable."""
    # One unresolvable reason is enough: evictions cannot change, say, a taint.
    refused, hopeless = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    for verdict in verdicts:
        refused |= verdict.nodes
        hopeless |= verdict.nodes & ~verdict.resolvable
    return refused & ~hopeless


def _mask_of(row: int, rows: int) -> NodeMask:
    mask = np.zeros(rows, dtype=np.bool_)
    mask[row] = True
    return mask
