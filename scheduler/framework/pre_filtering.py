"""Runs the pre-filter plugins of a profile, before any node is judged.

Source: ``framework/runtime/framework.go`` (RunPreFilterPlugins).
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from scheduler.errors import PluginError
from scheduler.framework.invoke import call_plugin
from scheduler.framework.observer import Observer
from scheduler.framework.plugin import PreFilterPlugin
from scheduler.framework.rejection import (
    Failure,
    NodeMask,
    Only,
    PreFilterAnswer,
    Refused,
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


def run_pre_filters(
    plugins: Sequence[PreFilterPlugin], pod: Pod, nodes: NodeTable, observer: Observer
) -> PreFilterResult:
    """Call every pre-filter plugin for *pod*, and combine their answers.

    Raises:
        PluginError: If one fails.
    """

    def ask(plugin: PreFilterPlugin) -> PreFilterAnswer:
        return ask_pre_filter(plugin, pod, nodes, observer)

    return combine_pre_filters(plugins, nodes, ask)


def ask_pre_filter(
    plugin: PreFilterPlugin, pod: Pod, nodes: NodeTable, observer: Observer
) -> PreFilterAnswer:
    """Call one pre-filter plugin."""
    answer = call_plugin("PreFilter", plugin.name, observer, _pre_filter_answer, plugin, pod, nodes)
    if not isinstance(answer, Skip):
        observer.evaluated("PreFilter", plugin.name, 1)
    return answer


def combine_pre_filters(
    plugins: Sequence[PreFilterPlugin],
    nodes: NodeTable,
    ask: Callable[[PreFilterPlugin], PreFilterAnswer],
) -> PreFilterResult:
    """Combine what *plugins* answer, in order; those behind a final refusal are not asked.

    Raises:
        PluginError: If one fails.
    """
    named: frozenset[str] | None = None
    narrowed_by: list[str] = []
    skipped: set[str] = set()
    refused: tuple[Refused, str] | None = None
    unasked: frozenset[str] = frozenset()
    for following, plugin in enumerate(plugins, 1):
        answer = ask(plugin)
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
