"""Asks the filters of a profile, and writes down what they say.

Every row is judged. The first plugin that refuses a row is the one to blame for it, with all its
reasons; later plugins are not blamed for rows that are refused already.

Source: ``pkg/scheduler/schedule_one.go`` (findNodesThatFitPod) and
``framework/runtime/framework.go`` (RunPreFilterPlugins, RunFilterPlugins).
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.errors import PluginError
from scheduler.framework.diagnosis import Diagnosis, Filtered, Verdict
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, judges_worlds
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
    """What the pre-filter plugins left to judge.

    Args:
        only: The rows that may be judged at all; None for every row.
        narrowed_by: The plugins that named rows.
        skipped: Plugins whose filter has nothing to say about the pod.
        refused: The answer that refuses every row at once.
        refused_by: Whose answer that is.
        unasked: Plugins that stand behind it, and were not asked any more.
    """

    only: NodeMask | None = None
    narrowed_by: tuple[str, ...] = ()
    skipped: frozenset[str] = frozenset()
    refused: Refused | None = None
    refused_by: frozenset[str] = frozenset()
    unasked: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class _Tally:
    """What has been said so far, while the filters are asked."""

    alive: NodeMask
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[tuple[str, Failure]] = field(default_factory=list)


def ask_pre_filters(
    plugins: Sequence[PreFilterPlugin], pod: Pod, nodes: NodeTable, observer: Observer
) -> PreFilterResult:
    """Ask every pre-filter plugin about *pod*.

    Raises:
        PluginError: If one fails.
    """
    named: frozenset[str] | None = None
    narrowed_by: list[str] = []
    skipped: set[str] = set()
    refused: tuple[Refused, str] | None = None
    unasked: frozenset[str] = frozenset()
    for place, plugin in enumerate(plugins, 1):
        answer = call_plugin("PreFilter", plugin.name, observer, _said_before, plugin, pod, nodes)
        if not isinstance(answer, Skip):
            observer.asked("PreFilter", plugin.name, 1)
        match answer:
            case None:
                pass
            case Skip():
                skipped.add(plugin.name)
            case Refused(resolvable=resolvable):
                refused = answer, plugin.name
                if not resolvable:
                    unasked = _names(plugins[place:])
                    break
            case Only(names=names):
                named = names if named is None else named & names
                narrowed_by.append(plugin.name)
                if not named:  # names of nodes that do not exist are names still
                    text = _nothing_left(narrowed_by)
                    return PreFilterResult(
                        only=nodes.named(named),
                        refused=Refused(text, resolvable=False),
                        refused_by=frozenset(narrowed_by),
                        unasked=_names(plugins[place:]),
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


def _said_before(plugin: PreFilterPlugin, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
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
    """Tell whether *names* are that: a list or tuple means the same as a set."""
    return isinstance(names, AbstractSet | list | tuple) and all(
        isinstance(name, str) for name in names
    )


def _nothing_left(plugins: Sequence[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"


def ask_filters(
    plugins: Iterable[FilterPlugin],
    skipped: frozenset[str],
    pod: Pod,
    nodes: NodeTable,
    observer: Observer,
) -> Filtered:
    """Ask every filter about every row of *nodes*.

    Raises:
        PluginError: If one fails, or could not judge a row that no other refused.
    """
    return _without_failures(judge_rows(plugins, skipped, pod, nodes, observer))


def judge_rows(
    plugins: Iterable[FilterPlugin],
    skipped: frozenset[str],
    pod: Pod,
    nodes: NodeTable,
    observer: Observer,
) -> Filtered:
    """Ask every filter about every row of *nodes*, and note what could not be judged.

    Raises:
        PluginError: If one fails.
    """
    count_column = _Tally(np.ones(len(nodes), dtype=np.bool_))
    for row, why in nodes.closed.items():
        _refuse(count_column, "", why, _one(row, len(nodes)), resolvable=False)
    for plugin in plugins:
        if plugin.name in skipped:
            continue
        if nodes.is_what_if and not judges_worlds(plugin):
            answers = _ask_world_by_world(plugin, pod, nodes, count_column.alive, observer)
        else:
            answers = _ask_about(plugin, pod, nodes, observer)
        _take(count_column, plugin.name, answers)
        if not count_column.alive.any():
            break
    return Filtered(count_column.alive, tuple(count_column.verdicts), tuple(count_column.failures))


def _ask_about(
    plugin: FilterPlugin, pod: Pod, nodes: NodeTable, observer: Observer
) -> list[Rejection | Failure]:
    answers = call_plugin("Filter", plugin.name, observer, _listed, plugin, pod, nodes)
    observer.asked("Filter", plugin.name, len(nodes))
    return answers


def _listed(plugin: FilterPlugin, pod: Pod, nodes: NodeTable) -> list[Rejection | Failure]:
    """Return all that *plugin* says; it is checked while it is the plugin's turn."""
    answers = list(plugin.filter(pod, nodes))
    for answer in answers:
        _check(plugin.name, answer, len(nodes))
    return answers


def _ask_world_by_world(
    plugin: FilterPlugin, pod: Pod, nodes: NodeTable, alive: NodeMask, observer: Observer
) -> list[Rejection | Failure]:
    """Ask a filter that may look beyond a row: it is shown one world at a time, and all of it."""
    changed = nodes.changed
    answers: list[Rejection | Failure] = []
    if (alive & ~changed).any():
        answers += (
            replace(answer, nodes=answer.nodes & ~changed)
            for answer in _ask_about(plugin, pod, nodes.unchanged, observer)
        )
    for row in (alive & changed).nonzero()[0].tolist():
        world = nodes.cluster_of(row)
        there = world.row_of(nodes.names[row])
        mask = _one(row, len(nodes))
        for answer in _ask_about(plugin, pod, world, observer):
            if not answer.nodes[there]:
                continue
            if isinstance(answer, Failure):
                answers.append(Failure(mask, answer.text))
            else:
                resolvable = np.broadcast_to(answer.resolvable, len(world))[there]
                answers.append(Rejection(mask, answer.reason, bool(resolvable)))
    return answers


def _take(count_column: _Tally, plugin: str, answers: Sequence[Rejection | Failure]) -> None:
    """Write down what one plugin said; all its reasons count for the rows it is to blame for."""
    before = count_column.alive.copy()
    failures = []
    for answer in answers:
        blamed = answer.nodes & before
        if not blamed.any():
            continue
        if isinstance(answer, Failure):
            failures.append(answer)
        else:
            _refuse(count_column, plugin, answer.reason, blamed, answer.resolvable)
    for failure in failures:
        unjudged = failure.nodes & count_column.alive
        if unjudged.any():
            count_column.failures.append((plugin, Failure(unjudged, failure.text)))
            count_column.alive &= ~unjudged


def _refuse(
    count_column: _Tally, plugin: str, reason: str, nodes: NodeMask, resolvable: NodeMask | bool
) -> None:
    count_column.alive &= ~nodes
    count_column.verdicts.append(Verdict(plugin, reason, nodes, nodes & resolvable))


def _check(plugin: str, answer: object, rows: int) -> None:
    """Hold the contract: a mask over the rows, and a reason."""
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


def _without_failures(filtered: Filtered) -> Filtered:
    for plugin, failure in filtered.failures:
        raise PluginError(plugin, f"failed in Filter: {failure.text}")
    return filtered


def filter_nodes(
    profile: Profile,
    narrowed: PreFilterResult,
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Filtered:
    """Judge every row, with pods nominated to rows of *nodes* both present and absent.

    Raises:
        PluginError: If a plugin fails, or could not judge a row that no other refused.
    """
    if narrowed.only is not None:
        return _judge_only(profile, narrowed, pod, nodes, nominated, observer)
    with observer.extension_point("Filter"):
        return _without_failures(
            judge_nodes(profile, narrowed.skipped, pod, nodes, nominated, observer)
        )


def judge_nodes(
    profile: Profile,
    skipped: frozenset[str],
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Filtered:
    """Judge every row, as `filter_nodes` does, and note what could not be judged.

    A row with nominated pods must take the pod in both worlds: the nominated pods may arrive, and
    they may not; resources can fail one way while affinity fails the other.
    """
    if not nominated:
        return judge_rows(profile.filter, skipped, pod, nodes, observer)
    crowded = nodes.each(adding=nominated)
    first = judge_rows(profile.filter, skipped, pod, crowded, observer)
    rows = np.array([row for row in nominated if first.feasible[row]], dtype=np.intp)
    if not len(rows):
        return first
    again = judge_rows(profile.filter, skipped, pod, nodes.select(rows), observer)
    return narrow(first, again, rows)


def _judge_only(
    profile: Profile,
    narrowed: PreFilterResult,
    pod: Pod,
    nodes: NodeTable,
    nominated: Mapping[int, Sequence[Pod]],
    observer: Observer,
) -> Filtered:
    """Judge the rows that pre-filters named, and nothing else."""
    assert narrowed.only is not None
    rows = narrowed.only.nonzero()[0]
    if not len(rows):
        return Filtered(narrowed.only, ())
    at = {int(row): index for index, row in enumerate(rows)}
    inner = filter_nodes(
        profile,
        PreFilterResult(skipped=narrowed.skipped),
        pod,
        nodes.select(rows),
        {at[row]: pods for row, pods in nominated.items() if row in at},
        observer,
    )
    feasible = np.zeros(len(nodes), dtype=np.bool_)
    feasible[rows] = inner.feasible
    said = tuple(verdict.among(rows, len(nodes)) for verdict in inner.verdicts)
    return Filtered(feasible, said)


def narrow(filtered: Filtered, further: Filtered, rows: "np.typing.NDArray[np.intp]") -> Filtered:
    """Return *filtered* with what was said *further* about its feasible *rows*."""
    feasible = filtered.feasible.copy()
    feasible[rows] = further.feasible
    said = tuple(verdict.among(rows, len(feasible)) for verdict in further.verdicts)
    failed = []
    for plugin, failure in further.failures:
        mask = np.zeros(len(feasible), dtype=np.bool_)
        mask[rows] = failure.nodes
        failed.append((plugin, Failure(mask, failure.text)))
    return Filtered(feasible, filtered.verdicts + said, filtered.failures + tuple(failed))


def diagnose(nodes: NodeTable, narrowed: PreFilterResult, filtered: Filtered | None) -> Diagnosis:
    """Sum up why no row of *nodes* can take the pod."""
    if filtered is None:
        assert narrowed.refused is not None
        return Diagnosis(
            names=tuple(nodes.names),
            pre_filter=narrowed.refused.reason,
            absent=narrowed.refused.reason,
            rejected_by=narrowed.refused_by,
            unasked=narrowed.unasked,
            nodes=len(nodes),
            preemption_may_help=np.full(len(nodes), narrowed.refused.resolvable),
        )
    blamed = {verdict.plugin for verdict in filtered.verdicts if verdict.plugin}
    return Diagnosis(
        names=tuple(nodes.names),
        verdicts=filtered.verdicts,
        absent=outside(narrowed) if narrowed.only is not None else "",
        rejected_by=frozenset(blamed | set(narrowed.narrowed_by)),
        nodes=len(nodes),
        preemption_may_help=_may_help(filtered.verdicts, len(nodes)),
    )


def outside(narrowed: PreFilterResult) -> str:
    """Return the reason of the rows that pre-filters did not name."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed.narrowed_by))}]"


def _may_help(verdicts: Sequence[Verdict], rows: int) -> NodeMask:
    """Return rows that were refused and of which no reason is beyond help."""
    refused, hopeless = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    for verdict in verdicts:
        refused |= verdict.nodes
        hopeless |= verdict.nodes & ~verdict.resolvable
    return refused & ~hopeless


def _one(row: int, rows: int) -> NodeMask:
    mask = np.zeros(rows, dtype=np.bool_)
    mask[row] = True
    return mask
