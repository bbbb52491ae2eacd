"""A pod: the fields that scheduling reads, and values derived from them.

Derived values are computed once for each version of a pod: upstream caches them in PodInfo
(``kube-scheduler/framework/types.go``).
"""

from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b
from typing import Final

import msgspec

from scheduler.model.affinity import PodAffinity
from scheduler.model.affinity_terms import PodAffinityTerms, read_terms
from scheduler.model.host_ports import HostPort, host_ports_of
from scheduler.model.meta import Condition, ObjectMeta, PodKey, PodUid, Raw, Struct
from scheduler.model.pod_requests import (
    PLACED,
    REQUESTED,
    SCORED,
    is_resized,
    nonzero_requests_of,
    requests_of,
)
from scheduler.model.pod_spec import PodSpec, PodStatus
from scheduler.model.resources import Amounts
from scheduler.model.selectors import compile_selector
from scheduler.model.volumes import PodClaim, Volume

DISRUPTION_TARGET: Final = "DisruptionTarget"
"""The condition of a pod that is deleted because of a disruption, such as preemption."""
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Its reason if a scheduler preempted the pod."""
_encode: Final = msgspec.msgpack.Encoder().encode
LATER_THAN_ANY: Final = "~"
"""Sorts after every time."""


class Pod(Struct, Raw, frozen=True, dict=True, gc=True):
    """A pod. *malformed* says why it cannot be parsed; mostly empty."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    malformed: str = ""

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.metadata.namespace

    @cached_property
    def uid(self) -> PodUid:
        """The pod's UID: two pods of one name differ in it."""
        return PodUid(self.metadata.uid)

    @cached_property
    def key(self) -> PodKey:
        """``namespace/name``."""
        return PodKey(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def labels(self) -> dict[str, str]:
        """The pod's labels."""
        return self.metadata.labels

    @cached_property
    def label_set(self) -> frozenset[tuple[str, str]]:
        """The pod's labels as a hashable value: equal for pods of one template."""
        return frozenset(self.metadata.labels.items())

    @cached_property
    def template_key(self) -> bytes:
        """A digest of all but identity, times and status: equal for pods of one template."""
        meta, status = self.metadata, self.status
        parts = (
            meta.namespace,
            meta.labels,
            meta.annotations,
            meta.owner_references,
            meta.deletion_timestamp is None,
            self.spec,
            self.malformed,
            # The names of generated claims begin with the pod's.
            self.metadata.name if any(each.generated for each in self.claims) else "",
            # What a kubelet says about a resize in place counts in requests.
            (status.conditions, status.container_statuses, status.init_container_statuses)
            if is_resized(status)
            else (),
            status.resources,
        )
        return blake2b(_encode(parts), digest_size=16).digest()

    @property
    def priority(self) -> int:
        """``spec.priority``, 0 where unset."""
        return self.spec.priority or 0

    @property
    def made_by_kubelet(self) -> bool:
        """Whether it is a mirror pod, which stands for a static pod: a Node owns it."""
        return any(owner.kind == "Node" for owner in self.metadata.owner_references)

    @cached_property
    def importance(self) -> tuple[int, str, str, str]:
        """A sort key for the most important pods first: highest priority, then earliest start.

        A pod that has not started is less important than one that has. Upstream uses the current
        time for it, read again at each comparison (``pkg/scheduler/util/utils.go``,
        MoreImportantPod); here no clock is needed, and the order is the same.
        """
        # RFC 3339 in UTC and without fractions, as API servers write it: texts compare as times do.
        started = self.status.start_time or LATER_THAN_ANY
        created = self.metadata.creation_timestamp or LATER_THAN_ANY
        return -self.priority, started, created, self.uid

    @property
    def node_name(self) -> str:
        """The node it is bound to; empty while pending."""
        return self.spec.node_name

    @property
    def nominated_node(self) -> str:
        """The node that the pod is nominated to; mostly empty."""
        return self.status.nominated_node_name

    @property
    def terminating(self) -> bool:
        """Whether deletion has begun."""
        return self.metadata.deletion_timestamp is not None

    @cached_property
    def requests(self) -> Amounts:
        """What must be free on a node for the pod: by its spec, without in-place resizes."""
        return requests_of(self.spec, self.status, REQUESTED)

    @cached_property
    def placed_requests(self) -> Amounts:
        """What the pod takes from its node: in-place resizes that the kubelet actuated count."""
        if is_resized(self.status):
            return requests_of(self.spec, self.status, PLACED)
        return self.requests

    @cached_property
    def nonzero_requests(self) -> Amounts:
        """How much cpu and memory the pod counts for in scores on its node, with defaults."""
        return nonzero_requests_of(self.spec, self.status, self.placed_requests)

    @cached_property
    def scored_requests(self) -> Amounts:
        """How much an incoming pod counts for in scores, with defaults for each container.

        Requests at pod level are left out: upstream's scorer does not read them
        (``noderesources/fit.go``).
        """
        return requests_of(self.spec, self.status, SCORED)

    @cached_property
    def affinity_terms(self) -> PodAffinityTerms:
        """The compiled pod affinity and anti-affinity terms."""
        return read_terms(self.spec.affinity, self.metadata.namespace)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports of sidecars and containers; upstream ignores other init containers."""
        sidecars = (each for each in self.spec.init_containers if each.sidecar)
        return tuple(host_ports_of((*sidecars, *self.spec.containers)))

    @property
    def images(self) -> Iterator[str]:
        """Every image reference: init containers, containers, image volumes."""
        for container in (*self.spec.init_containers, *self.spec.containers):
            yield container.image
        for volume in self.spec.volumes:
            if volume.image is not None:
                yield volume.image.reference

    @cached_property
    def storage(self) -> tuple[Volume, ...]:
        """The volumes that some plugin reads: claims, disks and CSI volumes; mostly none."""
        return tuple(volume for volume in self.spec.volumes if volume.is_storage)

    @cached_property
    def claims(self) -> tuple[PodClaim, ...]:
        """The claims of its volumes, in order."""
        return tuple(self._claims())

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of type *kind*, if the pod has it."""
        return self.status.condition(kind)

    def on(self, node: str) -> "Pod":
        """Return this pod as bound to *node*; derived values are kept.

        None of them depends on the node, and parsing a pod again would be most of an assume.
        """
        bound = msgspec.structs.replace(
            self, spec=msgspec.structs.replace(self.spec, node_name=node)
        )
        bound.__dict__.update(self.__dict__)
        return bound

    def nominated_to(self, node: str) -> "Pod":
        """Return this pod as nominated to *node*; derived values are kept."""
        nominated = msgspec.structs.replace(
            self, status=msgspec.structs.replace(self.status, nominated_node_name=node)
        )
        nominated.__dict__.update(self.__dict__)
        return nominated

    def check(self) -> None:
        """Read all quantities and label selectors.

        Raises:
            MalformedObject: If one cannot be read.
        """
        _ = self.placed_requests, self.requests
        for index, constraint in enumerate(self.spec.topology_spread_constraints):
            compile_selector(
                constraint.label_selector, f"spec.topologySpreadConstraints[{index}].labelSelector"
            )
        if self.spec.affinity is not None:
            _check_terms(self.spec.affinity.pod_affinity, "spec.affinity.podAffinity")
            _check_terms(self.spec.affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity")

    def _claims(self) -> Iterator[PodClaim]:
        for volume in self.storage:
            if volume.persistent_volume_claim is not None:
                yield PodClaim(self.namespace, volume.persistent_volume_claim.claim_name)
            elif volume.ephemeral is not None:
                yield PodClaim(self.namespace, f"{self.name}-{volume.name}", generated=True)


def _check_terms(affinity: PodAffinity | None, field: str) -> None:
    if affinity is None:
        return
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = [
        (f"{required}[{index}]", term)
        for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution)
    ]
    terms += [
        (f"{preferred}[{index}].podAffinityTerm", weighted.pod_affinity_term)
        for index, weighted in enumerate(
            affinity.preferred_during_scheduling_ignored_during_execution
        )
    ]
    for path, term in terms:
        compile_selector(term.label_selector, f"{field}.{path}.labelSelector")
        compile_selector(term.namespace_selector, f"{field}.{path}.namespaceSelector")
