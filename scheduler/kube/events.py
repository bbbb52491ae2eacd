"""Events as values: those about pods, which ``kubectl describe pod`` shows, and our own.

Source: ``pkg/scheduler/schedule_one.go``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler.config.change import Outcome
from scheduler.config.document import OWN_NAME
from scheduler.model.meta import Struct
from scheduler.model.pod import Pod

NOTE_BYTES_MAXIMUM: Final = 1024
_NAMED: Final = 3
"""How many pods a note names before it only counts the others."""


class EventType(StrEnum):
    """The type of an event, as in the API."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Reference(Struct, frozen=True, omit_defaults=True):
    """The object that an event is about."""

    kind: str
    name: str
    api_version: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event about an object.

    Args:
        controller: The reporting controller: for an event about a pod, the pod's scheduler name.
        repeats: Whether it may happen to the same object again; only such events form a series.
    """

    regarding: Reference
    controller: str
    type: EventType
    reason: str
    action: str
    note: str
    related: Reference | None = None
    repeats: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two events one series."""
        regarding, related = self.regarding, self.related
        return (
            self.controller,
            self.type,
            self.reason,
            self.action,
            self.note,
            (regarding.kind, regarding.namespace, regarding.name, regarding.uid),
            related and (related.kind, related.namespace, related.name, related.uid),
        )


def pod_reference(pod: Pod) -> Reference:
    """Return the reference by which ``kubectl describe pod`` finds an event."""
    return Reference(
        kind="Pod",
        api_version="v1",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.metadata.resource_version,
    )


def scheduled(pod: Pod, node: str) -> Event:
    """Return the event that *pod* was bound; that happens once, so no series is kept."""
    return Event(
        regarding=pod_reference(pod),
        controller=pod.spec.scheduler_name,
        type=EventType.NORMAL,
        reason="Scheduled",
        action="Binding",
        note=f"Successfully assigned {pod.key} to {node}",
        repeats=False,
    )


def failed_scheduling(pod: Pod, message: str) -> Event:
    """Return the event that says why *pod* was not scheduled this time."""
    return Event(
        regarding=pod_reference(pod),
        controller=pod.spec.scheduler_name,
        type=EventType.WARNING,
        reason="FailedScheduling",
        action="Scheduling",
        note=message,
    )


def preempted(victim: Pod, preemptor: Pod, node: str, *, in_memory: bool = False) -> Event:
    """Return the event that *victim* is evicted from *node* for *preemptor*.

    A victim that was only assumed or waits for Permit has no binding at the API server: it is not
    evicted, its attempt is cancelled *in memory*.
    """
    where = " (in kube-scheduler memory)." if in_memory else ""
    return Event(
        regarding=pod_reference(victim),
        controller=preemptor.spec.scheduler_name,
        type=EventType.NORMAL,
        reason="Preempted",
        action="Preempting",
        note=f"Preempted by pod {preemptor.uid} on node {node}{where}",
        related=pod_reference(preemptor),
        repeats=False,
    )


def configuration_judged(regarding: Reference, outcome: Outcome) -> Event:
    """Return the event that says what became of a changed configuration."""
    if outcome.good:
        reason, note = "ConfigurationApplied", f"Serves {', '.join(outcome.profiles)} from now on"
    else:
        reason, note = "ConfigurationRefused", outcome.message
    return Event(
        regarding=regarding,
        controller=OWN_NAME,
        type=EventType.NORMAL if outcome.good else EventType.WARNING,
        reason=reason,
        action="Reloading",
        note=note,
    )


def configuration_deleted(regarding: Reference) -> Event:
    """Return the event that the object with the configuration was deleted."""
    return Event(
        regarding=regarding,
        controller=OWN_NAME,
        type=EventType.WARNING,
        reason="ConfigurationDeleted",
        action="Reloading",
        note="What was in force stays so until the process ends",
    )


def preemption_undone(pod: Pod, node: str, taken_by: Sequence[Pod]) -> Event:
    """Return the event that other pods took the capacity that was freed for *pod* on *node*."""
    named = ", ".join(each.key for each in taken_by[:_NAMED])
    more = f" and {len(taken_by) - _NAMED} more" if len(taken_by) > _NAMED else ""
    return Event(
        regarding=pod_reference(pod),
        controller=pod.spec.scheduler_name,
        type=EventType.WARNING,
        reason="PreemptionUndone",
        action="Preempting",
        note=f"The room made on node {node} was taken by pods of other schedulers: {named}{more}",
    )


def truncate_note(note: str) -> str:
    """Return *note* cut to what the API server accepts; the mark is kube-scheduler's."""
    if len(note.encode()) <= NOTE_BYTES_MAXIMUM:
        return note
    return clip(note, NOTE_BYTES_MAXIMUM - 4) + " ..."


def clip(text: str, bytes_maximum: int) -> str:
    """Return as much of *text* as fits into *bytes_maximum*, without half a character."""
    encoded = text.encode()
    if len(encoded) <= bytes_maximum:
        return text
    return encoded[:bytes_maximum].decode(errors="ignore")
