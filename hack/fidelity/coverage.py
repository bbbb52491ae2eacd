"""Has enough been asked? What did not occur was not compared.

Counted are pods, for refusals and acceptances, and nodes, for scores.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Json = dict[str, Any]

DIFFERENT_SCORES: Final = 3
_NAMES: Final = re.compile(
    r"""\d+|\b(?:default|team-[ab]|lonely)(?=/)|(?<=storageclass\.storage\.k8s\.io ")[a-z-]+"""
)
_WORDING: Final = re.compile(r"(?<=from inline to csi): .*|(?<=could not translate pv): .*")

REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "SchedulingGates": (
        "waiting for scheduling gates: [example.com/images]",
        "waiting for scheduling gates: [example.com/quota]",
        "waiting for scheduling gates: [example.com/images example.com/quota]",
        "waiting for scheduling gates: [example.com/quota example.com/images]",
    ),
    "NodeUnschedulable": ("node(s) were unschedulable",),
    "NodeName": ("node(s) didn't match the requested node name",),
    "TaintToleration": ("node(s) had untolerated taint(s)",),
    "NodeAffinity": (
        "pod affinity terms conflict",
        "node(s) didn't match scheduler-enforced node affinity",
        "node(s) didn't match Pod's node affinity/selector",
    ),
    "NodePorts": ("node(s) didn't have free ports for the requested pod ports",),
    "NodeResourcesFit": (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/gpu",
        "Insufficient vendor.example/fpga",
        "Insufficient kubernetes.io/batch-cpu",
        "Insufficient hugepages-#Mi",
    ),
    "PodTopologySpread": (
        "node(s) didn't match pod topology spread constraints",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ),
    "InterPodAffinity": (
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ),
    "VolumeRestrictions": (
        'persistentvolumeclaim "" not found',
        'persistentvolumeclaim "no-such-claim" not found',
        "node(s) had no available disk",
        (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod"
        ),
    ),
    "NodeVolumeLimits": (
        "node(s) exceed max volume count",
        'looking up PVC #/no-such-claim: persistentvolumeclaim "no-such-claim" not found',
        ('looking up PVC #/pending-#-scratch: persistentvolumeclaim "pending-#-scratch" not found'),
        "PersistentVolumeClaim had no name",
        "PVC #/pending-#-scratch was not created for pod #/pending-# (pod is not owner)",
        "PVC #/running-#-scratch was not created for pod #/running-# (pod is not owner)",
        "converting volume(disk) from inline to csi",
    ),
    "VolumeBinding": (
        'persistentvolumeclaim "no-such-claim" not found',
        'persistentvolumeclaim "claim-#" is being deleted',
        'persistentvolumeclaim "claim-#" bound to non-existent persistentvolume "volume-#"',
        (
            "waiting for ephemeral volume controller to create the persistentvolumeclaim "
            '"pending-#-scratch"'
        ),
        "PVC #/pending-#-scratch was not created for pod #/pending-# (pod is not owner)",
        'persistentvolumeclaim "" not found',
        'VolumeBindingMode not set for StorageClass "modeless"',
        "could not translate pv",
        "pod has unbound immediate PersistentVolumeClaims",
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) did not have enough free storage",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    ),
    "VolumeZone": (
        "node(s) had no available volume zone",
        "PersistentVolumeClaim had no name",
        "PersistentVolume had no name",
        'VolumeBindingMode not set for StorageClass "modeless"',
        'persistentvolumeclaim "no-such-claim" not found',
        "PersistentVolumeClaim had no pv name and storageClass name",
        'persistentvolume "volume-#" not found',
        'storageclass.storage.k#s.io "#" not found',
    ),
    "NodeDeclaredFeatures": ("node(s) didn't match Pod's required features",),
}
"""Every reason that a plugin can give, of the generator's names; # is a name of them or a number.

What a plugin says as it fails is among them, though it is not compared: that it fails there is.

Not among them: what is behind feature gates that are off, and what is said of selectors that cannot
be parsed, which API servers refuse; we name the field instead. (They refuse claims without a name
and classes without a mode too, which are there all the same.)
"""

TEXTS: Final = (
    "node(s) didn't satisfy plugin OnlyLabelled.",
    "node(s) didn't satisfy plugin(s) [NodeAffinity OnlyLabelled] simultaneously.",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "node(s) didn't satisfy plugin(s) [OnlyLabelled]",
    "node(s) didn't satisfy plugin(s) [NodeAffinity OnlyLabelled]",
    ". no new claims to deallocate, preemption: ",
    ". not found",
    "preemption: not eligible due to preemptionPolicy=Never.",
    "preemption: not eligible due to a terminating pod on the nominated node.",
    " No preemption victims found for incoming pod",
    " Preemption is not helpful for scheduling",
)
"""What the framework and the post-filter plugins say in the message of a pod that fits nowhere."""

PREEMPTION: Final = "DefaultPreemption"

SCORERS: Final = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)


@dataclass
class Coverage:
    """Counts what the oracle answered."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    scores: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    texts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def count(self, answer: Json, nodes: int) -> None:
        """Count what was said about one pod."""
        self._count_outcome(answer["outcome"])
        gates = answer.get("preEnqueue", {})
        self.accepted["SchedulingGates"] += "SchedulingGates" not in gates
        for plugin, said in gates.items():
            self.refused[plugin] += 1
            self._count_reasons(plugin, said["reasons"])
        for plugin, said in answer.get("preFilter", {}).items():
            if said["code"] == "Skip":
                self.skipped[plugin] += 1
            self._count_reasons(plugin, said.get("reasons", ()))
        for plugin, verdicts in answer.get("filter", {}).items():
            refused = sum(len(verdict["nodes"]) for verdict in verdicts)
            self.refused[plugin] += refused > 0
            self.accepted[plugin] += refused < nodes
            self._count_reasons(plugin, {r for v in verdicts for r in v.get("reasons", ())})
        for plugin, found in answer.get("scores", {}).items():
            self.scores[plugin].update(found["normalized"])

    def _count_outcome(self, outcome: Json) -> None:
        self.outcomes.update(outcome.keys() - {"plugins", "nominates"})
        message = outcome.get("message", "")
        self.texts.update(text for text in TEXTS if text in message)
        self.accepted[PREEMPTION] += bool(outcome.get("nominates"))
        self.refused[PREEMPTION] += "preemption: " in message

    def _count_reasons(self, plugin: str, reasons: Collection[str]) -> None:
        self.reasons.update(
            (plugin, _NAMES.sub("#", _WORDING.sub("", reason))) for reason in reasons
        )

    def missing(self, plugins: Collection[str], least: int) -> Iterator[str]:
        """Yield what occurred less than *least* times, of what *plugins* can say."""
        if not least:
            return
        for plugin, reasons in {**REASONS, PREEMPTION: ()}.items():
            if plugin not in plugins:
                continue
            for verb, counts in (("accepts", self.accepted), ("refuses", self.refused)):
                if counts[plugin] < least:
                    yield f"{plugin} {verb}: {counts[plugin]} of {least}"
            for reason in reasons:
                if self.reasons[plugin, reason] < least:
                    yield f"{plugin} says {reason!r}: {self.reasons[plugin, reason]} of {least}"
        if PREEMPTION in plugins:
            for text in TEXTS:
                if self.texts[text] < least:
                    yield f"messages say {text!r}: {self.texts[text]} of {least}"
        for plugin in SCORERS:
            often = sum(1 for count in self.scores[plugin].values() if count >= least)
            if plugin in plugins and often < DIFFERENT_SCORES:
                yield f"{plugin} scores: {often} different values {least} times"

    def lines(self) -> Iterator[str]:
        """Yield the table of what occurred."""
        yield f"{'plugin':34} {'skips':>7} {'accepts':>8} {'refuses':>8}  scores"
        plugins = dict.fromkeys([*self.skipped, *self.accepted, *self.refused, *self.scores])
        for plugin in sorted(plugins):
            values = self.scores.get(plugin)
            yield (
                f"{plugin:34} {self.skipped[plugin]:7} {self.accepted[plugin]:8} "
                f"{self.refused[plugin]:8}  {_values(values) if values else ''}"
            ).rstrip()
        for (plugin, reason), count in sorted(self.reasons.items()):
            yield f"{count:7}  {plugin}: {reason}"
        for text, count in sorted(self.texts.items()):
            yield f"{count:7}  message: {text.strip(' .')}"
        yield ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))


def _values(counts: Counter[int]) -> str:
    often = ", ".join(f"{value}: {count}" for value, count in counts.most_common(4))
    return f"{len(counts)} values ({often})"
