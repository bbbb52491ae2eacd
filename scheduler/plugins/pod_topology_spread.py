"""Spreads pods evenly over the domains of a topology: zones, hosts or any other.

Source: ``plugins/podtopologyspread/`` (common.go, filtering.go, scoring.go, plugin.go).

Two quirks of upstream are kept: a constraint without a selector matches nothing, and one with an
empty selector matches the incoming pod but counts no pods. One quirk is not: in a dry run,
upstream's RemovePod subtracts pods that were never counted, terminating ones or those under an
empty selector.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import log
from typing import Final

import msgspec
import numpy as np

from scheduler.config.plugin_args import PodTopologySpreadArgs
from scheduler.errors import ConfigurationError, MalformedObject
from scheduler.framework.cluster_event import NODE, POD, Action, Change, ClusterEvent, Requeue
from scheduler.framework.rejection import MAX_NODE_SCORE, NodeMask, Rejection, Scores, Skip
from scheduler.model.affinity import TopologySpreadConstraint
from scheduler.model.fact import Resource
from scheduler.model.meta import kept_in_argument
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.pod_set import PodSet
from scheduler.model.pod_template import PodTemplate
from scheduler.model.selectors import (
    EXISTS,
    NOTHING,
    Requirement,
    Selector,
    compile_selector,
    equals,
)
from scheduler.snapshot.arrays import Int64s
from scheduler.snapshot.default_selector import default_selector
from scheduler.snapshot.domains import NO_DOMAIN
from scheduler.snapshot.node_selector import required_of
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.objects import ClusterObjects

_HARD: Final = "DoNotSchedule"
_SOFT: Final = "ScheduleAnyway"
_HONOR: Final = "Honor"
_HOSTNAME: Final = "kubernetes.io/hostname"
_IGNORED: Final = -1
"""The raw score of a node that lacks a topology key."""

_REASON: Final = "node(s) didn't match pod topology spread constraints"
_MISSING_LABEL: Final = f"{_REASON} (missing required label)"

_SELECT_PODS: Final[frozenset[str]] = frozenset(
    (
        Resource.SERVICE,
        Resource.REPLICATION_CONTROLLER,
        Resource.REPLICA_SET,
        Resource.STATEFUL_SET,
    )
)
"""The resources whose selectors are merged into the selector of default constraints."""

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=_HOSTNAME, when_unsatisfiable=_SOFT, max_skew=3),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable=_SOFT, max_skew=5
    ),
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint as it applies to one pod.

    Args:
        written: The constraint in the pod's spec or in the plugin's arguments.
        selector: The compiled selector.
        counted: The pods that are counted.
        own: 1 if the selector matches the incoming pod, else 0 (upstream's selfMatchNum).
    """

    written: TopologySpreadConstraint
    selector: Selector
    counted: PodSet
    own: int

    @property
    def key(self) -> str:
        """The node label whose value is the domain."""
        return self.written.topology_key

    @property
    def present(self) -> Requirement:
        """That a node has the label."""
        return Requirement(self.key, EXISTS)

    @property
    def honors_affinity(self) -> bool:
        """Whether nodes that do not match the pod's node affinity are left out."""
        return self.written.node_affinity_policy in {None, _HONOR}

    @property
    def honors_taints(self) -> bool:
        """Whether nodes with taints that the pod does not tolerate are left out."""
        return self.written.node_taints_policy == _HONOR


class PodTopologySpread:
    """Rejects nodes where a constraint's skew would be exceeded; prefers domains with few pods.

    Args:
        args: The constraints of pods that have none themselves.
    """

    name = "PodTopologySpread"
    each_world = True
    scores_alike = True

    def __init__(self, args: PodTopologySpreadArgs = PodTopologySpreadArgs()) -> None:  # noqa: B008 - frozen
        if problems := tuple(_problems(args)):
            raise ConfigurationError(*problems)
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else _listed(args)
        self.needs = _SELECT_PODS if self._defaults else frozenset[str]()
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        self.requeue_on = (
            Requeue(ClusterEvent(POD, pods), self._counts_changed),
            Requeue(ClusterEvent(NODE, nodes), self._domains_changed),
        )

    # Filter.

    def pre_filter(self, pod: Pod, nodes: NodeTable) -> Skip | None:
        """Skip pods without DoNotSchedule constraints.

        Raises:
            MalformedObject: If a selector is invalid.
        """
        return None if self._constraints(pod, nodes.objects, _HARD) else Skip()

    def filter(self, pod: Pod, nodes: NodeTable) -> Iterator[Rejection]:
        """Reject each node for the first constraint that *pod* would violate there."""
        constraints = self._constraints(pod, nodes.objects, _HARD)
        undecided = np.ones(len(nodes), dtype=np.bool_)
        for constraint, included in _with_included(pod, constraints, nodes, every_key=True):
            if not undecided.any():
                break
            written = constraint.written
            missing = undecided & ~nodes.matching(constraint.present)
            if missing.any():
                yield Rejection(missing, _MISSING_LABEL, resolvable=False)
                undecided &= ~missing
            # With fewer domains than minDomains the global minimum is 0: new domains are expected.
            uneven = undecided & nodes.exceeding_skew(
                constraint.key,
                constraint.counted,
                included,
                most=written.max_skew - constraint.own,
                needed=written.min_domains or 1,
            )
            if uneven.any():
                yield Rejection(uneven, _REASON)
                undecided &= ~uneven

    # Score.

    def score(self, pod: Pod, nodes: NodeTable) -> Scores | None:
        """Sum the matching pods in each node's domains; `normalize` turns few into a high score.

        Each constraint is weighted by the number of its domains, so that one over many hosts counts
        like one over few zones (upstream: topologyNormalizingWeight).
        """
        constraints = self._constraints(pod, nodes.objects, _SOFT)
        if not constraints:
            return None
        # The built-in defaults keep nodes without a zone (upstream: requireAllTopologies):
        # many clusters have none, and spreading over hosts has to work there.
        strict = bool(pod.spec.topology_spread_constraints) or not self._system
        ignored = ~_having(nodes, constraints) if strict else np.zeros(len(nodes), dtype=np.bool_)
        if ignored.all():
            return np.full(len(nodes), _IGNORED, dtype=np.int64)
        totals = np.zeros(len(nodes), dtype=np.float64)
        for constraint, included in _with_included(pod, constraints, nodes, every_key=strict):
            count, weight = _weigh(constraint, nodes, included, ignored)
            # A larger maxSkew lets the counts of domains differ more before scores do (upstream:
            # scoreForCount).
            term = count * weight + float(constraint.written.max_skew - 1)
            totals += term if strict else nodes.matching(constraint.present) * term
        # Go rounds halves away from zero. Scores are not negative here, so that is up.
        scores = np.floor(totals + 0.5).astype(np.int64)
        scores[ignored] = _IGNORED
        return scores

    def normalize(self, scores: Scores, pod: Pod, nodes: NodeTable) -> Scores:  # noqa: ARG002
        """Reverse the scale: the fewest pods score 100, ignored nodes 0."""
        counted = scores != _IGNORED
        most = int(scores.max(initial=0))
        if most == 0:
            return np.where(counted, MAX_NODE_SCORE, 0)
        fewest = int(scores[counted].min())
        reversed_scores = MAX_NODE_SCORE * (most + fewest - scores) // most
        return np.where(counted, reversed_scores, 0)

    # Constraints.

    def _constraints(self, pod: Pod, objects: ClusterObjects, action: str) -> Sequence[Constraint]:
        """Return *pod*'s own constraints, or the default ones if it has none."""
        if pod.spec.topology_spread_constraints:
            return _OWN[action](pod.template)
        defaults = [each for each in self._defaults if _has_action(each, action)]
        selector = default_selector(pod, objects) if defaults else NOTHING
        if not defaults or selector.empty:
            return ()
        return [_constraint(pod, each, selector) for each in defaults]

    # Queueing hints.

    def _counts_changed(self, pod: Pod, change: Change) -> bool:
        """Tell whether a counted pod was added or removed, or changed its labels."""
        pods = [each for each in (change.old, change.new) if isinstance(each, Pod)]
        if not pods:
            return True
        if not all(_involved(each, pod) for each in pods):
            return False
        old, new = pods[0], pods[-1]
        if len(pods) == 2 and self._tolerations_count(pod, old, new):
            return True
        try:
            selectors = self._hard_selectors(pod)
        except MalformedObject:  # upstream's hint fails then, and a failing hint wakes the pod
            return True
        updated = len(pods) == 2
        if selectors is None:
            return not updated or old.labels != new.labels
        return any(
            each.matches(new.labels) != (updated and each.matches(old.labels)) for each in selectors
        )

    def _tolerations_count(self, pod: Pod, old: Pod, new: Pod) -> bool:
        """Tell whether *pod*'s own tolerations changed, and with them the nodes that count."""
        return (
            new.uid == pod.uid
            and new.spec.tolerations != old.spec.tolerations
            and any(each.node_taints_policy == _HONOR for each in self._hard(pod))
        )

    def _hard_selectors(self, pod: Pod) -> Sequence[Selector] | None:
        """Return the selectors of *pod*'s constraints; None for those of services and owners.

        Hints get the changed object alone, and cannot read services.
        """
        if not pod.spec.topology_spread_constraints:
            return None if self._hard(pod) else ()
        return [each.selector for each in _own_hard(pod.template)]

    def _domains_changed(self, pod: Pod, change: Change) -> bool:
        """Tell whether a node that counts was added or removed, or changed its domain."""
        keys = {each.topology_key for each in self._hard(pod)}
        nodes = [each for each in (change.old, change.new) if isinstance(each, Node)]
        labels = [each.metadata.labels for each in nodes]
        counting = [keys <= each.keys() for each in labels]
        if len(nodes) < 2 or not all(counting):
            return any(counting) or not nodes
        moved = any(labels[0][key] != labels[1][key] for key in keys)
        return moved or nodes[0].spec.taints != nodes[1].spec.taints

    def _hard(self, pod: Pod) -> Sequence[TopologySpreadConstraint]:
        written = pod.spec.topology_spread_constraints or self._defaults
        return [each for each in written if _has_action(each, _HARD)]


def _has_action(written: TopologySpreadConstraint, action: str) -> bool:
    return written.when_unsatisfiable == action


@kept_in_argument
def _own_hard(template: PodTemplate) -> Sequence[Constraint]:
    return _own(template, _HARD)


@kept_in_argument
def _own_soft(template: PodTemplate) -> Sequence[Constraint]:
    return _own(template, _SOFT)


_OWN: Final = {_HARD: _own_hard, _SOFT: _own_soft}
"""Return the constraints of a pod's own with an action."""


def _own(template: PodTemplate, action: str) -> Sequence[Constraint]:
    """Compile the constraints; ``matchLabelKeys`` add the pod's labels to their selectors.

    Raises:
        MalformedObject: If a selector is invalid.
    """
    found = []
    for index, written in enumerate(template.spec.topology_spread_constraints):
        if _has_action(written, action):
            path = f"spec.topologySpreadConstraints[{index}].labelSelector"
            selector = compile_selector(written.label_selector, path)
            labels = template.labels
            own_labels = {key: labels[key] for key in written.match_label_keys if key in labels}
            selector = selector.and_also(equals(own_labels))
            found.append(_constraint(template, written, selector))
    return found


def _constraint(
    pod: Pod | PodTemplate, written: TopologySpreadConstraint, selector: Selector
) -> Constraint:
    counted = NOTHING if selector.empty else selector
    return Constraint(
        written,
        selector,
        PodSet(frozenset((pod.namespace,)), counted),
        int(selector.matches(pod.labels)),
    )


def _involved(other: Pod, pod: Pod) -> bool:
    """Tell whether *other* is *pod* itself, or has a node and may be counted."""
    placed = bool(other.node_name or other.nominated_node)
    return other.uid == pod.uid or (placed and other.namespace == pod.namespace)


# Which nodes count.


def _with_included(
    pod: Pod, constraints: Sequence[Constraint], nodes: NodeTable, *, every_key: bool
) -> Iterator[tuple[Constraint, NodeMask]]:
    """Pair each constraint with the nodes of the whole cluster that count for it.

    With *every_key*, a node that lacks the key of any constraint counts for none.
    """
    if not constraints:
        return
    cluster = nodes.cluster
    with_keys = _having(cluster, constraints) if every_key else np.ones(len(cluster), np.bool_)
    wanted = tolerated = None
    required = required_of(pod)
    if not required.accepts_all and any(each.honors_affinity for each in constraints):
        wanted = required.mask(cluster)
    if any(each.honors_taints for each in constraints):
        tolerated = ~cluster.untolerated(pod.spec.tolerations)
    for each in constraints:
        included = with_keys
        if each.honors_affinity and wanted is not None:
            included = included & wanted
        if each.honors_taints and tolerated is not None:
            included = included & tolerated
        yield each, included


def _having(nodes: NodeTable, constraints: Sequence[Constraint]) -> NodeMask:
    """Return which of *nodes* have the keys of all constraints."""
    present = dict.fromkeys(each.present for each in constraints)
    return reduce(np.logical_and, map(nodes.matching, present))


# Weights.


def _weigh(
    constraint: Constraint, nodes: NodeTable, included: NodeMask, ignored: NodeMask
) -> tuple[Int64s, float]:
    """Return how many matching pods each row's domain has, and the weight of one of them.

    For hostnames upstream counts the pods of the node itself, whatever the node policies say.
    """
    if constraint.key == _HOSTNAME:
        hosts = len(nodes) - int(ignored.sum())
        return nodes.count(constraint.counted), log(hosts + 2)
    here = nodes.sum_domains(constraint.key, constraint.counted, included=included)
    ids = nodes.domains(constraint.key)[~ignored]
    # Nodes without the key, unless they are ignored, are one more domain: upstream reads their
    # missing label as an empty value.
    domains = int(np.count_nonzero(np.bincount(ids + 1)))
    if not nodes.has_label(constraint.key, ""):
        return here, log(domains + 2)
    blank = nodes.labelled(constraint.key, "")
    if blank.any():  # the label is present and empty: the same domain as nodes without it
        domains -= int((ids == NO_DOMAIN).any())
        lacking = included & (nodes.cluster.domains(constraint.key) == NO_DOMAIN)
        here = here + blank * nodes.cluster.count(constraint.counted)[lacking].sum()
    return here, log(domains + 2)


# Validation of the arguments.


def _listed(args: PodTopologySpreadArgs) -> tuple[TopologySpreadConstraint, ...]:
    return tuple(
        msgspec.convert(msgspec.to_builtins(each), TopologySpreadConstraint)
        for each in args.default_constraints
    )


def _problems(args: PodTopologySpreadArgs) -> Iterator[str]:
    if args.defaulting_type not in {"System", "List"}:
        yield f"defaultingType: must be System or List: {args.defaulting_type}"
    if args.defaulting_type == "System" and args.default_constraints:
        yield "defaultConstraints: must be empty unless defaultingType is List"
    seen = set()
    for index, each in enumerate(args.default_constraints):
        path = f"defaultConstraints[{index}]"
        if each.max_skew <= 0:
            yield f"{path}.maxSkew: must be positive, got {each.max_skew}"
        if not each.topology_key:
            yield f"{path}.topologyKey: must be given"
        if each.when_unsatisfiable not in {_HARD, _SOFT}:
            yield f"{path}.whenUnsatisfiable: must be {_HARD} or {_SOFT}"
        if each.label_selector is not None:
            yield f"{path}.labelSelector: must be absent: it follows from services and owners"
        if (each.topology_key, each.when_unsatisfiable) in seen:
            yield f"{path}: repeats a topologyKey with the same whenUnsatisfiable"
        seen.add((each.topology_key, each.when_unsatisfiable))
