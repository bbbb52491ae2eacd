"""Which pods a disruption budget protects from being evicted.

Source: ``plugins/defaultpreemption/default_preemption.go`` (filterPodsWithPDBViolation).
"""

from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from scheduler.errors import MalformedObject
from scheduler.model.fact import Resource
from scheduler.model.match_index import MatchIndex
from scheduler.model.objects import PodDisruptionBudget
from scheduler.model.pod import Pod
from scheduler.model.selectors import Selector, compile_selector
from scheduler.snapshot.arrays import Int64s, Rows
from scheduler.snapshot.objects import ClusterObjects

_BUDGETS_AT_ONCE: Final = 512
"""Disruption budgets that are compiled between two pauses."""
SUBTRACTIONS_AT_ONCE: Final = 1_000_000
"""Budgets from which pods are subtracted between two pauses: some milliseconds of work."""
_SUBTRACTIONS_AT_LEAST: Final = 1000
"""What a pod counts for however few budgets match it."""


class NamespaceBudgets:
    """The disruption budgets of one namespace: how many more matching pods each lets be evicted.

    A namespace may have thousands. Pods with the same labels are matched once, by an index.
    Pods in ``status.disruptedPods`` are being evicted, and what a budget allows does not count them
    any more.
    """

    def __init__(self) -> None:
        self.allowed: Int64s = np.zeros(0, dtype=np.int64)
        self._disrupted: dict[str, set[int]] = {}
        self._matching: dict[Hashable, Rows] = {}
        self._index: MatchIndex[tuple[int, Selector]] = MatchIndex()

    def read(self, written: Iterable[PodDisruptionBudget]) -> Iterator[None]:
        """Compile the budgets, with pauses."""
        allowed: list[int] = []
        for budget in written:
            selector = _selector_of(budget)
            if selector is None:
                continue
            number = len(allowed)
            allowed.append(budget.status.disruptions_allowed)
            self._index.add((number, selector), None, selector)
            for name in budget.status.disrupted_pods:
                self._disrupted.setdefault(name, set()).add(number)
            if not len(allowed) % _BUDGETS_AT_ONCE:
                yield
        self.allowed = np.array(allowed, dtype=np.int64)

    def has_matched(self, pod: Pod) -> bool:
        """Tell whether pods with the same labels were matched before."""
        return pod.label_set in self._matching

    def matching(self, pod: Pod) -> Rows:
        """Return the numbers of the budgets from which an eviction of *pod* is subtracted."""
        found = self._matching.get(pod.label_set)
        if found is None:
            candidates = self._index.candidates(pod.namespace, pod.labels) if pod.labels else ()
            numbers = [number for number, selector in candidates if selector.matches(pod.labels)]
            found = self._matching[pod.label_set] = np.array(numbers, dtype=np.intp)
        if pod.name in self._disrupted:
            found = np.setdiff1d(found, list(self._disrupted[pod.name]))
        return found


class DisruptionBudgets:
    """The disruption budgets of the cluster, compiled once for each dry run.

    Args:
        objects: Holds the budgets.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._any = any(True for _ in objects.all(Resource.POD_DISRUPTION_BUDGET))
        self._known: dict[str, NamespaceBudgets] = {}
        self._subtracted = 0

    def split(
        self, pods: Sequence[Pod]
    ) -> Generator[None, None, tuple[Sequence[Pod], Sequence[Pod]]]:
        """Split *pods*, the most important first, into those that a budget protects and the rest.

        The most important pods use up what a budget allows. Each node counts for itself, as
        upstream does (filterPodsWithPDBViolation): only one of them will be chosen.
        """
        if not self._any:
            return (), pods
        protected: list[Pod] = []
        free: list[Pod] = []
        spent: dict[str, Int64s] = {}
        for pod in pods:
            budgets = self._known.get(pod.namespace)
            if budgets is None:
                budgets = self._known[pod.namespace] = NamespaceBudgets()
                yield from budgets.read(self._objects.budgets(pod.namespace))
            # Thousands of budgets may match every pod of thousands: matched once, they are still
            # subtracted for each.
            if not budgets.has_matched(pod) or self._subtracted >= SUBTRACTIONS_AT_ONCE:
                self._subtracted = 0
                yield
            matching = budgets.matching(pod)
            self._subtracted += _SUBTRACTIONS_AT_LEAST + len(matching)
            if pod.namespace not in spent:
                spent[pod.namespace] = np.zeros(len(budgets.allowed), dtype=np.int64)
            violates = _subtract(spent[pod.namespace], matching, budgets.allowed)
            (protected if violates else free).append(pod)
        return protected, free


def _subtract(spent: Int64s, matching: Rows, allowed: Int64s) -> bool:
    """Subtract a pod from all budgets that match it; tell whether one is violated."""
    if not len(matching):
        return False
    spent[matching] += 1
    return bool((spent[matching] > allowed[matching]).any())


def _selector_of(written: PodDisruptionBudget) -> Selector | None:
    """Compile the selector; None if it is invalid or empty and so matches no pod."""
    try:
        selector = compile_selector(written.spec.selector, "spec.selector")
    except MalformedObject:
        return None
    return None if selector.empty else selector
