"""The real kube-scheduler on a real API server: did it do what our plugins would have done?

Generated nodes and pods are posted to a local control plane, one pod at a time. Before each pod
everything is read back as the API server holds it: with its defaults, its way to write quantities,
its merged selectors. Compared are

- the node that the pod is bound to, which has to be one of our best,
- the score of every plugin for every node, and their sums, which kube-scheduler logs,
- the condition and the event of a pod that fits nowhere, to the last letter.

The same objects go through the oracle as well: all three have to agree. Pods that would evict
others are posted with `preemptionPolicy: Never`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from hack.api import MERGE_PATCH, ApiError
from hack.control_plane import ControlPlane
from hack.fidelity.clusters import Question
from hack.fidelity.compare import Difference, best_nodes, differences
from hack.fidelity.configs import as_document, make_live_profiles
from hack.fidelity.coverage import REASONS, Coverage
from hack.fidelity.ours import OurCluster
from hack.fidelity.postable import make_postable_cluster
from hack.fidelity.score_log import ScoreLog, Scores
from hack.fidelity.words import NAMESPACES, Dice
from hack.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hack.decisions import Decisions

    Ask = Callable[["Json"], "Json"]
    Report = Callable[[Question, Sequence[Difference]], None]

Json = dict[str, Any]

_CORE: Final = "v1"
_STORAGE: Final = "storage.k8s.io/v1"
_KINDS: Final = {
    "Namespace": (_CORE, "namespaces"),
    "Service": (_CORE, "services"),
    "StorageClass": (_STORAGE, "storageclasses"),
    "CSIDriver": (_STORAGE, "csidrivers"),
    "CSINode": (_STORAGE, "csinodes"),
    "CSIStorageCapacity": (_STORAGE, "csistoragecapacities"),
    "VolumeAttachment": (_STORAGE, "volumeattachments"),
    "PersistentVolume": (_CORE, "persistentvolumes"),
    "PersistentVolumeClaim": (_CORE, "persistentvolumeclaims"),
    "Node": (_CORE, "nodes"),
    "Pod": (_CORE, "pods"),
}
# A pod that names its node, or is gated, is never tried.
_JUDGES: Final = REASONS.keys() - {"NodeName", "SchedulingGates"}
_LEAST_BY_PLUGIN: Final = 1
_TOUCHED: Final = "example.com/touched"
_PODS_IN_CLUSTER: Final = 25
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.005
_LONGEST_NOTE: Final = 1024
_CUT: Final = " ..."


class Live:
    """A control plane with kube-scheduler, and what was found with it.

    Args:
        ask: Puts a question to the oracle.
        report: Called with every pod about which the answers differ.
        seed: From which everything is made.
        questions: Takes what our side was asked.
    """

    def __init__(self, ask: Ask, report: Report, seed: int, questions: Decisions) -> None:
        self._ask = ask
        self._report = report
        self._questions = questions
        self._seed = seed
        self.found: Counter[str] = Counter()
        self.coverage = Coverage()

    @property
    def pods(self) -> int:
        """How many pods were decided about and compared."""
        return self.found["placed"] + self.found["refused"]

    def too_rare(self, least: int) -> Iterator[str]:
        """Yield what occurred less than *least* times."""
        for what in ("placed", "refused", "scored", "ties"):
            if self.found[what] < least:
                yield f"live {what}: {self.found[what]} of {least}"
        for plugin in _JUDGES if least else ():
            for verb, counts in (
                ("accepts", self.coverage.accepted),
                ("refuses", self.coverage.refused),
            ):
                if counts[plugin] < _LEAST_BY_PLUGIN:
                    yield f"live {plugin} {verb}: {counts[plugin]} of {_LEAST_BY_PLUGIN}"

    def run(self, pods: int) -> None:
        """Post at least that many pods, in as many clusters as it takes."""
        profiles = make_live_profiles(Dice(f"live:{self._seed}"))
        # Without the admission that gives pods a service account, new nodes a taint, and storage
        # objects a finalizer, which nobody here would remove.
        unprotected = "--disable-admission-plugins=StorageObjectInUseProtection"
        with ControlPlane(components=(), benchmark=True, apiserver_flags=[unprotected]) as plane:
            process = plane.start_kube_scheduler(
                {"profiles": profiles, "percentageOfNodesToScore": 100},
                flags=("--vmodule=schedule_one=10",),
            )
            for name in NAMESPACES[1:]:
                labels = {"team": name.removeprefix("team-")} if name.startswith("team") else {}
                body = {"metadata": {"name": name, "labels": labels}}
                plane.request("POST", "/api/v1/namespaces", body)
            log = ScoreLog(process.log)
            while self.pods < pods:
                name = f"live-{self.found['clusters']}"
                dice = Dice(f"{name} of {self._seed}")
                self._run_cluster(_Cluster(plane, log, name), dice, profiles)
                self.found["clusters"] += 1

    def _run_cluster(self, cluster: _Cluster, dice: Dice, profiles: Sequence[Json]) -> None:
        pods = cluster.furnish(dice)
        self.found["invalid objects"] += cluster.refused
        for pod in pods:
            self._compare(cluster, pod, as_document(dice.one(profiles)))
        cluster.clear()

    def _compare(self, cluster: _Cluster, pod: Json, config: Json) -> None:
        """Post *pod*, to the profile of *config*, and compare all three answers."""
        before = cluster.objects()
        spec = pod["spec"]
        spec["schedulerName"] = config["profiles"][0]["schedulerName"]
        ours = OurCluster(config, before)
        if ours.judge({**pod, "status": {}})["outcome"].get("nominates"):
            spec["preemptionPolicy"] = "Never"
        posted = cluster.post(pod)
        if posted is None:
            self.found["invalid"] += 1
            return
        question = Question(before, [posted], config, f"{cluster.name} of {self._seed}")
        self._questions.add({"objects": before, "pods": [posted], "config": config})
        decided = cluster.decided(posted)
        said = ours.judge(posted)
        (linked,) = self._ask(question.document)["pods"]
        self.coverage.count(linked, len(ours.names))
        found = [
            *self._ended_differently(decided, said, ours.names),
            *self._scored_differently(cluster.scores_of(posted), decided, said, ours.names),
            *_reported_differently(cluster, decided),
            *differences(linked, said, posted, ours.names),
        ]
        if found:
            self.found["mismatches"] += 1
            self._report(question, found)
        cluster.settle(decided)

    def _ended_differently(
        self, decided: Json, ours: Json, names: list[str]
    ) -> Iterator[Difference]:
        node = decided["spec"].get("nodeName")
        if node:
            self.found["placed"] += 1
            best = best_nodes(ours, names)
            self.found["ties"] += len(best) > 1
            if node not in best:
                yield Difference("live host", node, f"{sorted(best)}: {ours['outcome']}")
            return
        self.found["refused"] += 1
        said, own = condition_of(decided), ours["outcome"]
        if said["reason"] == "SchedulerError":
            if "error" not in own:  # the wording is not compared
                yield Difference("live condition", said, own)
        elif said.get("message") != own.get("message"):
            yield Difference("live condition", said.get("message"), own)

    def _scored_differently(
        self, upstream: Scores, decided: Json, ours: Json, names: list[str]
    ) -> Iterator[Difference]:
        """Compare what was logged; a pod that one node can take is not scored."""
        feasible = [names[node] for node in ours.get("feasible", ())]
        if not decided["spec"].get("nodeName") or len(feasible) < 2:
            return
        self.found["scored"] += 1
        own = {
            plugin: dict(zip(feasible, said["weighted"], strict=True))
            for plugin, said in ours.get("scores", {}).items()
        }
        theirs = upstream.weighted
        for plugin in sorted({*own, *theirs}):
            left, right = theirs.get(plugin, {}), own.get(plugin, {})
            # To skip is to score everything 0.
            if left != right and any((*left.values(), *right.values())):
                yield Difference(f"live score {plugin}", left, right)
        totals = dict(zip(feasible, ours.get("totals", ()), strict=True))
        if upstream.totals != totals:
            yield Difference("live totals", upstream.totals, totals)


def condition_of(pod: Json) -> Json:
    """Return the pod's condition PodScheduled; empty where it has none."""
    conditions: list[Json] = pod.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def _reported_differently(cluster: _Cluster, decided: Json) -> Iterator[Difference]:
    """Compare the event with the condition, which is longer where an event's note is cut."""
    if decided["spec"].get("nodeName"):
        return
    message = condition_of(decided)["message"]
    event = cluster.event_of(decided)
    note = message
    if len(message) > _LONGEST_NOTE:
        note = message[: _LONGEST_NOTE - len(_CUT)] + _CUT
    if (event["reason"], event["message"]) != ("FailedScheduling", note):
        yield Difference("live event", event["message"], note)


class _Cluster:
    """The nodes and services of one generated cluster, and the pods that are posted to it."""

    def __init__(self, plane: ControlPlane, log: ScoreLog, name: str) -> None:
        self._plane = plane
        self._log = log
        self.name = name
        self.refused = 0

    def furnish(self, dice: Dice) -> list[Json]:
        """Post all but the pods, and return those."""
        made = make_postable_cluster(dice, self.name, _PODS_IN_CLUSTER)
        for each in made.objects:
            self.refused += not self._create(each)
        nodes = [each for each in made.objects if each["kind"] == "Node"]
        self._await_nodes(len(nodes))
        self._touch(nodes)
        return made.pods

    def _create(self, document: Json) -> bool:
        """Post an object, and return whether the API server accepted it.

        What it sets back at creation is written once more.
        """
        if self._posted(document) is None:
            return False
        if document["kind"].startswith("PersistentVolume"):
            status = {"status": document["status"]}
            path = f"{_path(document)}/status"
            self._plane.request("PATCH", path, status, content_type=MERGE_PATCH)
        return True

    def clear(self) -> None:
        """Delete everything."""
        kept = {"Namespace"}
        for kind in reversed(_KINDS):
            for each in self._list(kind) if kind not in kept else ():
                if each["metadata"]["name"] != "kubernetes":
                    self._plane.request("DELETE", f"{_path(each)}?gracePeriodSeconds=0")
        self._await_nodes(0)

    def _await_nodes(self, count: int) -> None:
        """Wait until kube-scheduler knows so many nodes."""
        message = f"0/{count} nodes are available" if count else "no nodes available"
        self._await_word(message, {"nodeSelector": {"nobody": "has-this"}})

    def _touch(self, nodes: Sequence[Json]) -> None:
        """Change all nodes, and wait until kube-scheduler knows.

        It counts who has an image as of when it last looked at each node, which it does only if
        the node has changed: one that it came to know early would not know of the others.
        """
        change = {"metadata": {"labels": {_TOUCHED: ""}}}
        for node in nodes:
            self._plane.request("PATCH", _path(node), change, content_type=MERGE_PATCH)
        untouched = [{"key": _TOUCHED, "operator": "DoesNotExist"}]
        required = {"nodeSelectorTerms": [{"matchExpressions": untouched}]}
        wish = {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            },
            "tolerations": [{"operator": "Exists"}],
        }
        count = len(nodes)
        why = "node(s) didn't match Pod's node affinity/selector"
        self._await_word(f"0/{count} nodes are available: {count} {why}.", wish)

    def _await_word(self, message: str, wish: Json) -> None:
        """Wait until kube-scheduler gives this reason for rejecting a pod with such a wish."""
        canary = {
            "apiVersion": "v1",
            "kind": "Pod",
            # A new name each time: the one before may not be gone yet.
            "metadata": {"generateName": "canary-", "namespace": "default"},
            "spec": {
                "schedulerName": "py-scheduler",
                "containers": [{"name": "main", "image": "canary"}],
                **wish,
            },
        }

        def tells() -> bool:
            decided = self.decided(self._plane.request("POST", _siblings(canary), canary))
            self.settle(decided)
            return bool(condition_of(decided).get("message", "").startswith(message))

        _awaited(tells, f"these words: {message}")

    def objects(self) -> list[Json]:
        """Read everything that scheduling depends on."""
        return [each for kind in _KINDS for each in self._list(kind)]

    def post(self, pod: Json) -> Json | None:
        """Post a pod, and return it as it is stored; None where the API server refuses it."""
        posted = self._posted(pod)
        return None if posted is None else {"apiVersion": "v1", "kind": "Pod", **posted}

    def _posted(self, document: Json) -> Json | None:
        try:
            posted: Json = self._plane.request("POST", _siblings(document), document)
        except ApiError as error:
            if error.status != 422:
                raise
            return None
        return posted

    def decided(self, pod: Json) -> Json:
        """Wait until the pod is bound, or refused."""

        def seen() -> Json | None:
            found = self._plane.request("GET", _path(pod))
            return found if found["spec"].get("nodeName") or condition_of(found) else None

        decided: Json = _awaited(seen, f"a decision about {_path(pod)}")
        return decided

    def event_of(self, pod: Json) -> Json:
        """Wait for the event about a rejection."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name={name}"
        found: list[Json] = _awaited(
            lambda: self._plane.request("GET", path)["items"], f"an event about {_path(pod)}"
        )
        return found[0]

    def scores_of(self, pod: Json) -> Scores:
        """Return what was logged before the pod was bound."""
        return self._log.of(pod["metadata"]["namespace"], pod["metadata"]["name"])

    def settle(self, decided: Json) -> None:
        """Let the pod stay if it was placed; else delete it, before it is tried again."""
        if not decided["spec"].get("nodeName"):
            self._plane.request("DELETE", f"{_path(decided)}?gracePeriodSeconds=0")

    def _list(self, kind: str) -> list[Json]:
        version, plural = _KINDS[kind]
        items = self._plane.request("GET", f"{_root(version)}/{plural}")["items"]
        # In the order in which they came: the first node to hold an image tells its size.
        items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [{"apiVersion": version, "kind": kind, **item} for item in items]


def _root(version: str) -> str:
    return f"/api/{version}" if version == _CORE else f"/apis/{version}"


def _siblings(document: Json) -> str:
    """Return where objects of this kind and namespace are."""
    version, plural = _KINDS[document["kind"]]
    namespace = document["metadata"].get("namespace")
    return f"{_root(version)}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"


def _path(document: Json) -> str:
    return f"{_siblings(document)}/{document['metadata']['name']}"


def _awaited(look: Callable[[], Any], what: str) -> Any:
    what = f"kube-scheduler owes us {what}"
    return until(look, what, seconds=_PATIENCE_SECONDS, poll_seconds=_PAUSE_SECONDS)
