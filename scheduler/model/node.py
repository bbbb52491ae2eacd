"""A node: the fields that scheduling reads."""

from functools import cached_property
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import force_setattr

from scheduler.errors import MalformedObject
from scheduler.model import quantity
from scheduler.model.meta import Condition, NodeName, ObjectMeta, Raw, Struct
from scheduler.model.resources import CPU, PODS, Amounts
from scheduler.model.taints import Taint


class NodeSpec(Struct, frozen=True):
    """The desired state of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Struct, frozen=True, weakref=True, gc=True):
    """An image that is present on a node, with all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True):
    """The state of a node as its kubelet reports it."""

    allocatable: dict[str, str | int | float | None] = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Struct, Raw, frozen=True, dict=True, gc=True):
    """A node. *malformed* says why it cannot be parsed, which closes it to pods; mostly empty."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    malformed: str = ""

    @property
    def name(self) -> NodeName:
        """The node's name."""
        return NodeName(self.metadata.name)

    @cached_property
    def allocatable(self) -> Amounts:
        """How much pods may request in total: cpu in milli, everything else in units.

        Raises:
            MalformedObject: If a quantity cannot be read.
        """
        amounts = {}
        for name, literal in self.status.allocatable.items():
            try:
                count = quantity.nanos(literal)
            except ValueError as problem:
                raise MalformedObject(f"status.allocatable[{name}]", str(problem)) from None
            amounts[name] = quantity.millis(count) if name == CPU else quantity.units(count)
        return amounts

    @property
    def allowed_pods(self) -> int:
        """How many pods the kubelet admits."""
        return self.allocatable.get(PODS, 0)

    def share(self) -> None:
        """Take over the images that other live nodes have as well.

        Called once, before anybody else sees the node. Fifty images with two names each are most of
        a node, and a cluster's nodes have much the same ones.
        """
        images = tuple(
            _images.setdefault((each.names, each.size_bytes), each) for each in self.status.images
        )
        force_setattr(self.status, "images", images)

    def check(self) -> None:
        """Parse what is parsed lazily.

        Raises:
            MalformedObject: If a value cannot be read.
        """
        _ = self.allocatable


_images: Final[WeakValueDictionary[tuple[tuple[str, ...], int], ContainerImage]] = (
    WeakValueDictionary()
)
"""The images of all live nodes, one object for equal ones."""
