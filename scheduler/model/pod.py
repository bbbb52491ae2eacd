"""A pod: the fields that scheduling reads, and values derived from them.

Derived values are computed once for all pods of a template (``pod_template``); upstream computes
them for each version of each pod, in PodInfo (``kube-scheduler/framework/types.go``).
"""

from collections.abc import Generator, Iterator
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from scheduler.model.affinity_terms import PodAffinityTerms
from scheduler.model.host_ports import HostPort
from scheduler.model.meta import Condition, ObjectMeta, PodKey, PodUid, Raw, Struct
from scheduler.model.pod_spec import PodSpec, PodStatus
from scheduler.model.pod_template import PodTemplate, template_of
from scheduler.model.resources import Amounts
from scheduler.model.volumes import PodClaim, Volume

DISRUPTION_TARGET: Final = "DisruptionTarget"
"""The condition of a pod that is deleted because of a disruption, such as preemption."""
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Its reason if a scheduler preempted the pod."""
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

    @property
    def uid(self) -> PodUid:
        """The pod's UID: two pods of one name differ in it."""
        return self.metadata.uid  # type: ignore[return-value] # a call would cost more than this

    @property
    def key(self) -> PodKey:
        """``namespace/name``."""
        # Not cached: a hundred thousand bound pods would keep a text that is asked for twice.
        return PodKey(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def labels(self) -> dict[str, str]:
        """The pod's labels."""
        return self.metadata.labels

    @property
    def label_set(self) -> frozenset[tuple[str, str]]:
        """The pod's labels as a hashable value: equal for pods of one template."""
        return self.template.label_set

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
    def template(self) -> PodTemplate:
        """What the pod has in common with others of its workload."""
        return template_of(self.metadata, self.spec, self.status)

    @property
    def template_key(self) -> bytes:
        """Equal for pods that differ in identity, times, node and status alone.

        Of the status, a resize in place counts, since it changes how much the pod takes. Pods whose
        claims are generated from their names differ.
        """
        return self.template.key

    @property
    def requests(self) -> Amounts:
        """What must be free on a node for the pod: by its spec, without in-place resizes."""
        return self.template.demand.requests

    @property
    def placed_requests(self) -> Amounts:
        """What the pod takes from its node: in-place resizes that the kubelet actuated count."""
        return self.template.demand.placed_requests

    @property
    def nonzero_requests(self) -> Amounts:
        """How much cpu and memory the pod counts for in scores on its node, with defaults."""
        return self.template.demand.nonzero_requests

    @property
    def scored_requests(self) -> Amounts:
        """How much an incoming pod counts for in scores, with defaults for each container.

        Requests at pod level are left out: upstream's scorer does not read them
        (``noderesources/fit.go``).
        """
        return self.template.demand.scored_requests

    @property
    def affinity_terms(self) -> PodAffinityTerms:
        """The compiled pod affinity and anti-affinity terms."""
        return self.template.affinity_terms

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports of sidecars and containers; upstream ignores other init containers."""
        return self.template.demand.host_ports

    @property
    def images(self) -> Iterator[str]:
        """Every image reference: init containers, containers, image volumes."""
        for container in (*self.spec.init_containers, *self.spec.containers):
            yield container.image
        for volume in self.spec.volumes:
            if volume.image is not None:
                yield volume.image.reference

    @property
    def storage(self) -> tuple[Volume, ...]:
        """The volumes that some plugin reads: claims, disks and CSI volumes; mostly none."""
        return self.template.storage

    @property
    def claims(self) -> tuple[PodClaim, ...]:
        """The claims of its volumes, in order."""
        return self.template.claims

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
        self.template.check()

    def prepare(self) -> Generator[None, None, None]:
        """Do in pieces what `check` and the cache would do with a large pod at once.

        Raises:
            MalformedObject: If a quantity or a label selector cannot be read.
        """
        template = self.template
        yield
        yield from template.checking()
        if self.node_name:
            yield
            _ = template.demand.nonzero_requests, template.demand.host_ports
            yield
            yield from template.affinity_terms.grouping()

    def share_node_name(self, name: str) -> None:
        """Refer to *name*, the name of the pod's node, instead of to a text equal to it."""
        assert name == self.spec.node_name, f"{self.key} is not on {name}"
        force_setattr(self.spec, "node_name", name)

    def share(self) -> None:
        """Take over all that the pod has in common with live ones of its template.

        Called once, before anybody else sees the pod: its values stay equal, and their copies go.
        """
        template, metadata = self.template, self.metadata
        force_setattr(metadata, "namespace", template.namespace)
        force_setattr(metadata, "labels", template.labels)
        force_setattr(metadata, "owner_references", template.owner_references)
        force_setattr(self, "spec", template.spec_on(self.spec.node_name))
        template.share_status(self.status, metadata.creation_timestamp)
