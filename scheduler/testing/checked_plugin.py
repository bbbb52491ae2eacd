"""Calls one method of a plugin at a time, and checks the type and the shape of each answer."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NoReturn

import numpy as np

from scheduler.errors import PluginError
from scheduler.framework.cluster_event import Change, Hint
from scheduler.framework.effects import Assume, Patch, PostBinding, WaitUntil
from scheduler.framework.invoke import call_plugin
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
from scheduler.model.pod import Pod
from scheduler.out_of_tree.stall_timer import PluginTimeout, StallTimer
from scheduler.snapshot.node_table import NodeTable

Reasons = frozenset[tuple[str, bool]]
"""Why a node cannot take a pod: reasons, and whether evicting pods could help."""


class CheckedPlugin:
    """A plugin whose answers are checked against the contract.

    A method raises AssertionError, naming the plugin, where the plugin raises, gives no answer in
    time, or gives one of a form that the contract does not know.

    Args:
        timer: Interrupts a plugin that does not return.
    """

    def __init__(self, plugin: Any, timer: StallTimer) -> None:
        self._plugin = plugin
        self._name = getattr(plugin, "name", None) or type(plugin).__name__
        self._plugin_timeout = PluginTimeout((self._name,), timer)

    def has(self, method: str) -> bool:
        """Tell whether the plugin has *method*."""
        return hasattr(type(self._plugin), method)

    def declared(self, name: str, default: object = None) -> Any:
        """Return an attribute that the plugin may have; *default* without it."""
        return getattr(self._plugin, name, default)

    def fail(self, text: str) -> NoReturn:
        """Raise AssertionError: the plugin breaks the contract as *text* describes."""
        raise AssertionError(self._broken(text))

    # About nodes.

    def verdicts(self, pod: Pod, table: NodeTable) -> list[Reasons]:
        """Return why each row cannot take *pod*; nothing where it can."""
        allowed = np.ones(len(table), dtype=np.bool_)
        if self.has("pre_filter"):
            match self._call("pre_filter", pod, table):
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
                    self.fail(f"pre_filter failed: {text}")
                case answer:
                    self.fail(
                        f"pre_filter answered {answer!r}; it is None, Skip(), Only(...),"
                        " Refused(...) or Failure(...)"
                    )
        found: list[set[tuple[str, bool]]] = [
            set() if inside else {("outside", False)} for inside in allowed.tolist()
        ]
        if self.has("filter"):
            for answer in self._listed("filter", pod, table):
                self._note(answer, found)
        return [frozenset(each) for each in found]

    def _note(self, answer: object, found: list[set[tuple[str, bool]]]) -> None:
        rows = len(found)
        if not isinstance(answer, Rejection | Failure):
            self.fail(f"filter yielded {answer!r}, not a Rejection or Failure")
        self._check_column("filter", answer.nodes, np.bool_, rows)
        text = answer.reason if isinstance(answer, Rejection) else answer.text
        self._check_reason("filter", text)
        resolvable: object = answer.resolvable if isinstance(answer, Rejection) else False
        if not isinstance(resolvable, bool | np.bool_):
            self._check_column("filter (resolvable)", resolvable, np.bool_, rows)
        helps = np.broadcast_to(np.asarray(resolvable), (rows,))
        for row in answer.nodes.nonzero()[0].tolist():
            found[row].add((text, bool(helps[row])))

    def raw_scores(self, pod: Pod, table: NodeTable) -> list[int] | None:
        """Return what score says about each row; None where it has nothing to say."""
        if not self.has("score"):
            return None
        raw = self._call("score", pod, table)
        if raw is None:
            return None
        self._check_column("score", raw, np.int64, len(table))
        scores: list[int] = raw.tolist()
        return scores

    def final_scores(self, pod: Pod, table: NodeTable, raw: list[int] | None) -> list[int] | None:
        """Return *raw* scores as they count, normalised if the plugin says how."""
        if raw is None:
            return None
        final = np.array(raw, dtype=np.int64)
        final.flags.writeable = False
        if self.declared("normalize") is not None:
            final = self._call("normalize", final, pod, table)
            self._check_column("normalize", final, np.int64, len(table))
        for score in (final.min(), final.max()) if len(final) else ():
            if not 0 <= score <= MAX_NODE_SCORE:
                self.fail(
                    f"scored {score} for pod {pod.name!r}; scores are 0 to {MAX_NODE_SCORE}, or the"
                    " plugin names how they are normalised (normalize = PROPORTIONAL, ...)"
                )
        scores: list[int] = final.tolist()
        return scores

    # About the pod alone.

    def gate(self, pod: Pod) -> Gate | None:
        """Return what keeps *pod* out of the queue."""
        gate = self._call("pre_enqueue", pod)
        if gate is not None and not isinstance(gate, Gate):
            self.fail(f"pre_enqueue answered {gate!r}; it is None or Gate(reason)")
        if isinstance(gate, Gate):
            self._check_reason("pre_enqueue", gate.reason)
        return gate

    def hint(self, hint: Hint, pod: Pod, change: Change) -> None:
        """Ask whether *change* could help *pod*."""
        said = self._call_function(hint, "a hint of requeue_on", pod, change)
        if not isinstance(said, bool | np.bool_):
            self.fail(f"a hint of requeue_on answered {said!r}; it is true or false")

    def sort_keys(self, pods: Iterable[Pod]) -> list[Any]:
        """Return the keys by which *pods* are put in order."""
        return [self._call("sort_key", pod) for pod in pods]

    def put_in_order(self, keys: list[Any]) -> None:
        """Compare *keys*, which the plugin gave."""
        self._call_function(sorted, "comparing the answers of sort_key", keys)

    # About one node, once it is chosen.

    def reserve(self, pod: Pod, node: str, table: NodeTable) -> None:
        """Let the plugin set aside what *pod* takes, and give it back."""
        self._call("unreserve", pod, node)  # another plugin's reserve may have failed before
        answer = self._call("reserve", pod, node, table)
        if not (answer is None or isinstance(answer, Reject | Failure) or _assumes(answer)):
            self.fail(
                f"reserve answered {answer!r}; it is None, Reject(...), Failure(...) or a list"
                " of Assume(...)"
            )
        self._call("unreserve", pod, node)

    def permit(self, pod: Pod, node: str) -> None:
        """Ask whether *pod* may be bound; nobody waits yet."""
        answer = self._call("permit", pod, node, ())
        if not isinstance(answer, Allow | Wait | Reject):
            self.fail(f"permit answered {answer!r}; it is Allow(), Wait(...) or Reject(...)")
        if isinstance(answer, Wait) and answer.seconds <= 0:
            self.fail(f"permit wants to wait {answer.seconds} seconds")
        if isinstance(answer, Reject):
            self._check_reason("permit", answer.reason)

    def pre_bind(self, pod: Pod, node: str, table: NodeTable) -> None:
        """Ask what the plugin wants done before *pod* is bound."""
        for effect in self._listed("pre_bind", pod, node, table):
            if not isinstance(effect, Patch | PostBinding | WaitUntil):
                self.fail(f"pre_bind yielded {effect!r}, not an effect")

    # How it is called.

    def _call(self, method: str, *args: object) -> Any:
        return self._call_function(getattr(self._plugin, method), method, *args)

    def _listed(self, method: str, *args: object) -> list[object]:
        """Return what *method* yields; what it raises on the way counts too."""
        bound = getattr(self._plugin, method)
        answers: object = self._call_function(lambda: _as_list(bound(*args)), method)
        if not isinstance(answers, list):
            self.fail(f"{method} answered {answers!r}, which nobody can iterate over")
        return answers

    def _call_function(self, function: Callable[..., Any], what: str, *args: object) -> Any:
        try:
            return call_plugin(what, self._name, self._plugin_timeout, function, *args)
        except PluginError as error:
            bug = error.__cause__
            if bug is None:
                raise AssertionError(self._broken(error.problem)) from None
            hint = ""
            if "read-only" in str(bug):
                hint = " (arrays of a NodeTable belong to everybody: work on a copy)"
            message = f"{what} raised {type(bug).__name__}: {bug}{hint}"
            raise AssertionError(self._broken(message)) from bug

    def _check_column(self, what: str, found: object, kind: type, rows: int) -> None:
        words = "truth value" if kind is np.bool_ else "score"
        if not isinstance(found, np.ndarray):
            self.fail(f"{what} answered with {type(found).__name__}, not with one {words} a row")
        if found.shape != (rows,):
            self.fail(f"{what} answered in shape {found.shape} about {rows} rows")
        if found.dtype != kind:
            self.fail(f"{what} answered in {found.dtype}, not in {np.dtype(kind)}")

    def _check_reason(self, method: str, reason: object) -> None:
        if not isinstance(reason, str) or not reason.strip():
            self.fail(f"{method} gave {reason!r} for a reason; people will read it")

    def _broken(self, text: str) -> str:
        return f"plugin {self._name!r} breaks the contract: {text}"


def _as_list(answer: Any) -> object:
    return list(answer) if isinstance(answer, Iterable) else answer


def _assumes(answer: object) -> bool:
    return isinstance(answer, Sequence) and all(isinstance(each, Assume) for each in answer)


def _are_names(names: object) -> bool:
    return isinstance(names, AbstractSet | list | tuple) and all(
        isinstance(name, str) for name in names
    )
