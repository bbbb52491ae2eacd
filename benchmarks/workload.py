"""Reads workloads: what a benchmark creates, in which order, in which of several sizes.

A workload is a YAML file in ``benchmarks/workloads``::

    upstream: TopologySpreading                  # the workload of scheduler_perf that it reproduces
    modes: [drain, stream, paced]                # those that make sense; all by default
    sizes:
      full: {nodes: 5000, init: 5000, measured: 5000}
      tiny: {nodes: 20, init: 20, measured: 60}
    phases:
      - {kind: nodes, count: nodes, zones: [moon-1, moon-2, moon-3]}
      - {kind: pods, name: init, template: pod-default, count: init}
      - {kind: measured, template: pod-with-topology-spreading, count: measured}

The comment at its top says what it is for. Where a phase counts, it gives a number or the name of a
size. Phases are carried out in order; churn and deletions go on while pods are measured. Templates
are those of ``benchmarks/templates.yaml``.

**Pods that run before the measurement are created on their nodes**, one node after the other, where
upstream waits until the scheduler under test has bound them. Every scheduler then finds the same
cluster, and none is warm from work that is not measured. None of the workloads measures where those
pods are: on nodes of one size without other pods, a scheduler deals them out evenly as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
import yaml

ROOT: Final = Path(__file__).parent
WORKLOADS: Final = ROOT / "workloads"
TEMPLATES: Final = ROOT / "templates.yaml"

Mode = Literal["drain", "stream", "paced"]
Scale = Literal["full", "small", "tiny"]
MODES: Final[tuple[Mode, ...]] = ("drain", "stream", "paced")
SCALES: Final[tuple[Scale, ...]] = ("full", "small", "tiny")

Count = Annotated[int, msgspec.Meta(ge=0)] | str
"""A number, or the name of a size."""
Rate = Annotated[float, msgspec.Meta(gt=0)]
Template = dict[str, Any]
_T = TypeVar("_T", bound="_Phase")


class WorkloadError(ValueError):
    """A workload or template says what it cannot mean; the message names the file and the field."""


class _Phase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """One step of a workload."""


class Nodes(_Phase, frozen=True, tag="nodes"):
    """Nodes of one kind.

    Args:
        count: How many.
        group: The first part of their names, and the name under which pods refer to them.
        name: Their name, where there is only one.
        resources: Further resources; {index} is the node's number.
        zones: Their zones, dealt out in turn.
    """

    count: Count = 1
    group: str = "node"
    name: str = ""
    cpu: str = "4"
    memory: str = "32Gi"
    pods: int = 110
    resources: dict[str, str] = {}
    labels: dict[str, str] = {}
    zones: list[str] = []
    taints: list[dict[str, str]] = []


class Namespaces(_Phase, frozen=True, tag="namespaces"):
    """Namespaces with labels, ``<prefix>-0`` and on; all others are created as they are."""

    prefix: str
    count: Count
    labels: dict[str, str] = {}


class Service(_Phase, frozen=True, tag="service"):
    """A service that selects pods of a namespace."""

    namespace: str
    selector: dict[str, str]


class Pods(_Phase, frozen=True, tag="pods"):
    """Pods that are there before anything is measured.

    Args:
        name: The first part of their names, and their namespace unless *namespace* is given.
        template: The name of a template.
        count: How many.
        namespaces: Over how many namespaces they are dealt out, ``<namespace>-0`` and on; 0 for one
            without a number.
        node_group: The nodes they are created on; the first group by default.
        state: *bound* if they are created on nodes, *gated* if they wait behind a gate, *pending*
            if the scheduler under test is to bind them.
    """

    name: str
    template: str
    count: Count
    namespace: str = ""
    namespaces: Count = 0
    node_group: str = ""
    state: Literal["bound", "gated", "pending"] = "bound"


class Churn(_Phase, frozen=True, tag="churn"):
    """Objects that are created in turn, one of each template at a time, until the run ends.

    Args:
        name: The first part of their names, and their namespace.
        every_seconds: From one to the next.
        recreate: Whether each is deleted at the next turn, and created anew at the one after.
        parked: Whether the pods fit nowhere.
        victims: How many pods have to go for each pod.
    """

    name: str
    every_seconds: Rate
    pods: list[str] = []
    nodes: list[str] = []
    services: list[str] = []
    recreate: bool = False
    parked: bool = False
    victims: int = 0


class Deletions(_Phase, frozen=True, tag="deletions"):
    """Pods of an earlier phase that are deleted at a rate until the run ends or none is left."""

    of: str
    per_second: Rate


class Measured(_Phase, frozen=True, tag="measured"):
    """The pods that are measured.

    Args:
        template: The name of a template.
        count: How many.
        name: The first part of their names, and their namespace.
        node_group: The nodes that take them; the first group by default. Only the null scheduler
            reads it.
        victims: How many pods have to go for each.
    """

    template: str
    count: Count
    name: str = "measured"
    node_group: str = ""
    victims: int = 0


Phase = Nodes | Namespaces | Service | Pods | Churn | Deletions | Measured


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    upstream: str
    sizes: dict[Scale, dict[str, Annotated[int, msgspec.Meta(ge=1)]]]
    phases: list[Phase]
    modes: tuple[Mode, ...] = MODES


class Workload(msgspec.Struct, frozen=True):
    """A workload in one size: all counts are numbers.

    Args:
        name: Its file's.
        about: One sentence.
        sizes: The numbers by name, for reports.
        phases: In order, without the measured one.
        measured: The pods that are measured.
        templates: Those that the phases name.
    """

    name: str
    about: str
    upstream: str
    modes: tuple[Mode, ...]
    scale: Scale
    sizes: dict[str, int]
    phases: tuple[Phase, ...]
    measured: Measured
    templates: dict[str, Template]

    def of(self, kind: type[_T]) -> list[_T]:
        """Return the phases of a kind."""
        return [phase for phase in self.phases if isinstance(phase, kind)]


def names() -> list[str]:
    """Return the names of all workloads."""
    return sorted(path.stem for path in WORKLOADS.glob("*.yaml"))


def read(path: Path, scale: Scale, templates: dict[str, Template]) -> Workload:
    """Read one workload in one size.

    Raises:
        WorkloadError: The file is not a workload, lacks the size, or contradicts itself.
    """
    text = path.read_text()
    try:
        file = msgspec.convert(yaml.safe_load(text), _File)
        return _resolve(path.stem, _about(text), file, scale, templates)
    except (yaml.YAMLError, msgspec.ValidationError, WorkloadError) as error:
        raise WorkloadError(f"{path.name}: {error}") from None


def read_templates(path: Path = TEMPLATES) -> dict[str, Template]:
    """Read the templates of pods, nodes and services, by name."""
    sections = yaml.safe_load(path.read_text())
    kinds = (("pods", "Pod"), ("nodes", "Node"), ("services", "Service"))
    return {
        name: {**template, "kind": kind}
        for section, kind in kinds
        for name, template in sections[section].items()
    }


def load(name: str, scale: Scale) -> Workload:
    """Read one of the workloads that come with the benchmark."""
    if name not in names():
        raise WorkloadError(f"there is no workload {name!r}; there are: {', '.join(names())}")
    return read(WORKLOADS / f"{name}.yaml", scale, read_templates())


def _about(text: str) -> str:
    first = text.partition("\n")[0]
    if not first.startswith("# "):
        raise WorkloadError("its first line must be a comment that says what it is for")
    return first.removeprefix("# ")


def _resolve(
    name: str, about: str, file: _File, scale: Scale, templates: dict[str, Template]
) -> Workload:
    if scale not in file.sizes:
        raise WorkloadError(f"it has no size {scale!r}, only {', '.join(file.sizes)}")
    sizes = file.sizes[scale]
    phases = [_numbered(phase, sizes, number) for number, phase in enumerate(file.phases)]
    _check_order(phases)
    _check_sizes(file, sizes)
    used = _check_references(phases, templates)
    measured = phases[-1]
    assert isinstance(measured, Measured), "checked by its order"
    return Workload(
        name=name,
        about=about,
        upstream=file.upstream,
        modes=file.modes,
        scale=scale,
        sizes=sizes,
        phases=tuple(phases[:-1]),
        measured=measured,
        templates={each: templates[each] for each in used},
    )


def _numbered(phase: Phase, sizes: dict[str, int], number: int) -> Phase:
    """Return *phase* with numbers where it names sizes."""
    numbers = {}
    for field in ("count", "namespaces"):
        count = getattr(phase, field, 0)
        if isinstance(count, str):
            if count not in sizes:
                known = ", ".join(sizes)
                raise WorkloadError(f"phases[{number}].{field}: no size {count!r} among {known}")
            numbers[field] = sizes[count]
    return msgspec.structs.replace(phase, **numbers)


def _check_sizes(file: _File, sizes: dict[str, int]) -> None:
    named = {getattr(phase, field, 0) for phase in file.phases for field in ("count", "namespaces")}
    if unused := set(sizes) - named:
        raise WorkloadError(f"no phase has the size {', '.join(sorted(unused))}")
    for scale, other in file.sizes.items():
        if set(other) != set(sizes):
            raise WorkloadError(f"sizes.{scale} names other sizes than the others")


def _check_order(phases: list[Phase]) -> None:
    measured = [isinstance(phase, Measured) for phase in phases]
    if sum(measured) != 1 or not measured[-1]:
        raise WorkloadError("phases: the last one is measured, and no other")
    if not any(isinstance(phase, Nodes) for phase in phases):
        raise WorkloadError("phases: there are no nodes")


def _check_references(phases: list[Phase], templates: dict[str, Template]) -> set[str]:
    """Check that every name leads somewhere; return the names of the templates."""
    groups = {phase.group for phase in phases if isinstance(phase, Nodes)}
    pods: set[str] = set()
    used: set[str] = set()
    for number, phase in enumerate(phases):
        match phase:
            case Pods(name=name, template=template, node_group=group):
                wanted, pods = {template: "Pod"}, pods | {name}
            case Measured(template=template, node_group=group):
                wanted = {template: "Pod"}
            case Churn():
                group, wanted = "", _templates_of(phase)
            case Deletions(of=of) if of not in pods:
                raise WorkloadError(f"phases[{number}].of: no earlier pods are named {of!r}")
            case _:
                continue
        if group and group not in groups:
            raise WorkloadError(f"phases[{number}].node_group: no nodes are named {group!r}")
        for template, kind in wanted.items():
            if templates.get(template, {}).get("kind") != kind:
                raise WorkloadError(f"phases[{number}]: there is no template {template!r} ({kind})")
        used |= set(wanted)
    return used


def _templates_of(churn: Churn) -> dict[str, str]:
    kinds = ((churn.pods, "Pod"), (churn.nodes, "Node"), (churn.services, "Service"))
    return {name: kind for names, kind in kinds for name in names}
