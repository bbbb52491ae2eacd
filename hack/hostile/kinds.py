"""The kinds of hostile objects, as data: what grows, where it is, and what is said of it.

Each kind fills one object up to a size in bytes with as many different items as fit. Items never
repeat, within an object or between objects: what is equal could be shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hack.hostile import hostile_objects as others
from hack.hostile import hostile_pods as pods
from hack.hostile.kind import PREFERRED, REQUIRED, ZONE, Json, Kind, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _object(name: str, make: Callable[[int, int], Json]) -> Iterator[Kind]:
    yield Kind(name, Where.OBJECT, make)


def _everything() -> Iterator[Kind]:
    for side, word in (("podAffinity", "affinity"), ("podAntiAffinity", "anti-affinity")):
        for strength, how in ((REQUIRED, "required"), (PREFERRED, "preferred")):
            terms = f"{how} {word} terms"
            yield from pods.pods(
                f"{terms} over host names", pods.terms(side, strength, pods.of_nobody)
            )
            yield from pods.pods(
                f"{terms} over zones, for every pod",
                pods.terms(side, strength, lambda n, i: pods.of_everybody(n, i, ZONE)),
            )
            yield from pods.pods(
                f"{terms} over as many keys",
                pods.terms(
                    side,
                    strength,
                    lambda n, i: pods.of_everybody(n, i, pods.label_key(n, i)),
                ),
            )
    namespaces = pods.terms("podAntiAffinity", PREFERRED, pods.of_namespaces)
    yield from pods.pods("terms with namespace selectors", namespaces)
    yield from pods.pods("a term with many namespaces", pods.in_namespaces)
    yield from pods.pods("a term with many expressions", pods.long_selector)
    yield from pods.pods("a term with many values", pods.many_values)
    yield from pods.pods("hard spread constraints", pods.constraints("DoNotSchedule"))
    yield from pods.pods("soft spread constraints", pods.constraints("ScheduleAnyway"))
    pending = Where.PENDING
    yield from pods.pods("node selector terms", pods.node_terms, pending)
    yield from pods.pods("node selector expressions", pods.node_expressions, pending)
    yield from pods.pods("node selector values", pods.node_values, pending)
    yield from pods.pods("node selector keys", pods.node_keys, pending)
    yield from pods.pods("preferred node selector terms", pods.node_preferences, pending)
    yield from pods.pods("a nodeSelector with many labels", pods.node_selector, pending)
    yield from pods.pods("tolerations", pods.tolerations)
    yield from pods.pods("containers", pods.containers)
    yield from pods.pods("init containers and sidecars", pods.init_containers)
    yield from pods.pods("host ports", pods.ports)
    yield from pods.pods("resource names, zero of each", pods.resources)
    yield from pods.pods("resource names, one of each", pods.unknown_resources)
    yield from pods.pods("quantities at the edge of int64", pods.edge_quantities)
    yield from pods.pods("claims that do not exist", pods.claims)
    yield from pods.pods("claim templates", pods.templates)
    yield from pods.pods("disks", pods.disks)
    yield from pods.pods("inline CSI volumes", pods.csi_volumes)
    yield from pods.pods("scheduling gates", pods.gates, pending)
    yield from pods.pods("environment", pods.environment)
    yield from pods.labelled_pods("labels", pods.labels)
    yield from pods.labelled_pods("annotations", pods.many_annotations)
    yield from pods.labelled_pods("owners", pods.owners)
    yield from _object("nodes with taints", others.node_taints)
    yield from _object("nodes with labels", others.node_labels)
    yield from _object("nodes with images", others.node_images)
    yield from _object("nodes with resource names", others.node_resources)
    yield from _object("nodes with quantities at the edge of int64", others.edge_node)
    yield from _object("services with long selectors", others.service)
    yield from _object("budgets with long selectors", others.budget)
    yield from _object("volumes with node affinity", others.volume)
    yield from _object("CSINodes with many drivers", others.csi_node)
    yield from _object("namespaces with labels", others.namespace)
    yield Kind(
        "5,000 namespaces under one selector",
        Where.OBJECT,
        others.selected_namespace,
        5000,
    )
    yield Kind("bound: 5,000 label sets", Where.BOUND, others.label_set, 5000)
    yield Kind("pending: 1,000 label sets", Where.PENDING, others.label_set, 1000)


KINDS: Final = tuple(_everything())
