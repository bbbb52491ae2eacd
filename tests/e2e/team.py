"""The users' words: what a team wants of its pods, and what it expects to see.

    web = team.pods(4, spread_over=ZONE)
    team.expect_skew(web, over=ZONE)

A team has a namespace of its own, and everything that it makes goes with it. Nobody waits for a
fixed time: what is expected is asked for until it is so.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from hack.api import MERGE_PATCH, ApiError
from scheduler.queue.backoff_queue import WINDOW_SECONDS
from tests.e2e.cluster import (
    BACKOFF_SECONDS,
    HOST,
    SEAT,
    ZONE,
    ask,
    exists,
    until,
    workers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hack.api import Json
    from tests.e2e.cluster import Cluster

OURS = "py-scheduler"
_STAMP_SECONDS = 1.0
"""What a stamp of whole seconds may have lost."""
IMAGE = "registry.k8s.io/pause:3.10"
PRIORITIES: dict[str, Json] = {
    "low": {"value": 10},
    "middle": {"value": 100},
    "high": {"value": 1000},
    "polite": {"value": 1000, "preemptionPolicy": "Never"},
}


class Team:
    """One namespace of *cluster*; a context manager."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.workers = workers(cluster)
        self._numbers = itertools.count(1)
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._post("/api/v1/namespaces", {"metadata": {"name": self.name}})
        until(
            lambda: exists(self.cluster, self._path("v1/serviceaccounts", "default")),
            "the namespace has an account",
        )
        return self

    def __exit__(self, *_: object) -> None:
        for of in ("apps/v1/deployments", "v1/pods"):
            body = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
            ask(self.cluster, "DELETE", self._path(of), body)
        until(lambda: not self._read("v1/pods")["items"], "the team's pods are gone")
        self._cleanup.close()

    # What it wants.

    def pod(
        self,
        name: str | None = None,
        *,
        seats: int = 1,
        labels: dict[str, str] | None = None,
        priority: str | None = None,
        on: str | None = None,
        spread_over: str | None = None,
        mounting: str | None = None,
        scheduler: str = OURS,
        **spec: Any,
    ) -> str:
        """Create a pod and return its name.

        Args:
            seats: How many seats it takes.
            priority: low, middle, high, or polite: as high, and nobody goes for it.
            on: The only node that it may go to.
            spread_over: The topology over which pods of its name's first part are to be spread.
            mounting: A claim.
            spec: Further fields of its spec, as the API spells them.
        """
        name = name or f"pod-{next(self._numbers)}"
        described = self._pod_spec(seats, scheduler, **spec)
        labels = {"part": name.partition("-")[0], **(labels or {})}
        if priority is not None:
            described["priorityClassName"] = self._priority_class(priority)
        if on is not None:
            described["nodeSelector"] = {HOST: on}
        if spread_over is not None:
            described["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": spread_over,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"part": labels["part"]}},
                }
            ]
        if mounting is not None:
            claim = {"persistentVolumeClaim": {"claimName": mounting}}
            described["volumes"] = [{"name": "data", **claim}]
        self._create("v1/pods", {"metadata": {"name": name, "labels": labels}, "spec": described})
        return name

    def pods(self, count: int, **each: Any) -> list[str]:
        """Create *count* pods alike."""
        return [self.pod(**each) for _ in range(count)]

    def deployment(self, name: str, replicas: int) -> str:
        """Create a deployment of *replicas* pods with a seat each."""
        template = {"metadata": {"labels": {"app": name}}, "spec": self._pod_spec(1, OURS)}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        self._create("apps/v1/deployments", {"metadata": {"name": name}, "spec": spec})
        return name

    def budget(self, part: str, *, at_least: int) -> None:
        """Promise that *at_least* pods of *part* stay."""
        spec = {"minAvailable": at_least, "selector": {"matchLabels": {"part": part}}}
        self._create("policy/v1/poddisruptionbudgets", {"metadata": {"name": part}, "spec": spec})

        def counted() -> bool:
            status = self._read("policy/v1/poddisruptionbudgets", part).get("status", {})
            return bool(status.get("currentHealthy"))

        until(counted, f"the budget of {part} knows its pods")

    def storage_class(self, *, provisioner: str = "kubernetes.io/no-provisioner") -> str:
        """Create a class of volumes that wait for their first pod."""
        return self._create_everywhere(
            "/apis/storage.k8s.io/v1/storageclasses",
            "waiting",
            {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"},
        )

    def volume(self, of: str, *, on: str, of_claim: str | None = None) -> str:
        """Create a volume on a node, for everybody or for one claim of the team."""
        affinity = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [on]}]}
        spec: Json = {
            "storageClassName": of,
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/tmp"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}},
        }
        if of_claim is not None:
            uid = self.claim_of(of_claim)["metadata"]["uid"]
            spec["claimRef"] = {"namespace": self.name, "name": of_claim, "uid": uid}
        return self._create_everywhere(
            "/api/v1/persistentvolumes", f"volume-{next(self._numbers)}", {"spec": spec}
        )

    def claim(self, name: str, of: str) -> str:
        """Create a claim on a volume of a class."""
        spec = {
            "storageClassName": of,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self._create("v1/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})
        return name

    def claim_of(self, name: str) -> Json:
        """Return a claim as it is."""
        return self._read("v1/persistentvolumeclaims", name)

    def ungate(self, pod: str) -> None:
        """Take all gates off a pod."""
        path = self._path("v1/pods", pod)
        body = {"spec": {"schedulingGates": None}}
        ask(self.cluster, "PATCH", path, body, content_type=MERGE_PATCH)

    def delete(self, pod: str) -> None:
        """Delete a pod at once, and wait until it is gone."""
        ask(self.cluster, "DELETE", self._path("v1/pods", pod), {"gracePeriodSeconds": 0})
        self.expect_gone(pod)

    def fill(self, *nodes: str, **each: Any) -> list[str]:
        """Take every seat of *nodes*, of all workers by default; return the pods."""
        chosen = nodes or tuple(self.workers)
        filling = [self.pod(seats=4, on=node, **each) for node in chosen]
        self.expect_scheduled(*filling)
        return filling

    # What it expects.

    def node_of(self, pod: str) -> str:
        """Return where a pod is bound to; empty where it is not."""
        name: str = self._read("v1/pods", pod)["spec"].get("nodeName", "")
        return name

    def nominated_node_of(self, pod: str) -> str:
        """Return where room is made for a pod; empty where none is."""
        name: str = self._read("v1/pods", pod)["status"].get("nominatedNodeName", "")
        return name

    def pods_of(self, deployment: str) -> list[str]:
        """Return the pods of a deployment."""
        return [
            each["metadata"]["name"]
            for each in self._read("v1/pods")["items"]
            if each["metadata"].get("labels", {}).get("app") == deployment
        ]

    def expect_scheduled(self, *pods: str, on: str | Collection[str] = ()) -> list[str]:
        """Wait until *pods* are bound, check where, and return their nodes."""
        wanted = {on} if isinstance(on, str) else set(on)
        found = [
            until(
                lambda pod=pod: self.node_of(pod),
                f"{pod} is bound; {self._condition(pod)}",
            )
            for pod in pods
        ]
        assert not wanted or set(found) <= wanted, f"{pods} are on {found}, not on {on}"
        return found

    def expect_phase(self, phase: str, *pods: str) -> list[Json]:
        """Wait until *pods* are so far, and return their status."""

        def status(pod: str) -> Json | None:
            found: Json = self._read("v1/pods", pod)["status"]
            return found if found["phase"] == phase else None

        return [until(lambda pod=pod: status(pod), f"{pod} is {phase}") for pod in pods]

    def expect_pending(self, pod: str, reason: str) -> None:
        """Wait until a pod's condition tells *reason*, and check that it has no node."""
        until(
            lambda: reason in self._condition(pod),
            f"{pod} waits since {reason}; {self._condition(pod)}",
        )
        assert not self.node_of(pod), f"{pod} is bound"

    def expect_backoff_over(self, *pods: str) -> None:
        """Wait until *pods*, refused once, go by their importance alone when something changes.

        Before, those go first that were refused in an earlier second of the scheduler's clock. It
        begins its seconds at other moments than the time of day: see test_backoff_queue.py.
        """
        for pod in pods:
            since = datetime.fromisoformat(self._scheduled(pod)["lastTransitionTime"])
            over = since + timedelta(seconds=_STAMP_SECONDS + BACKOFF_SECONDS + WINDOW_SECONDS)
            until(lambda over=over: datetime.now(UTC) > over, f"{pod} may be tried again")

    def expect_gone(self, pod: str) -> None:
        """Wait until a pod is no more."""
        until(lambda: not exists(self.cluster, self._path("v1/pods", pod)), f"{pod} is gone")

    def expect_preempted(self, pod: str, *, by: str) -> None:
        """Wait until a pod was told that it has to make room for another, and went."""
        until(
            lambda: [
                each
                for each in self.events(pod, "Preempted")
                if each.get("related", {}).get("name") == by
            ],
            f"{pod} is told that it goes for {by}",
        )
        self.expect_gone(pod)

    def expect_skew(self, pods: Iterable[str], *, over: str = ZONE, maximum: int = 1) -> None:
        """Check that the domains of *over* differ by at most *maximum* of *pods*."""
        domains = self.workers if over == ZONE else {name: name for name in self.workers}
        counts = Counter(dict.fromkeys(domains.values(), 0))
        counts.update(domains[node] for node in self.expect_scheduled(*pods))
        assert max(counts.values()) - min(counts.values()) <= maximum, counts

    def events(self, about: str, reason: str) -> list[Json]:
        """Return what was told about one of its objects."""
        return [
            each
            for each in self._read("events.k8s.io/v1/events")["items"]
            if each["regarding"]["name"] == about and each["reason"] == reason
        ]

    # Inside.

    @staticmethod
    def _pod_spec(seats: int, scheduler: str, **spec: Any) -> Json:
        wanted = {SEAT: str(seats)} if seats else {}
        resources = {"requests": wanted, "limits": wanted}
        return {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
            **spec,
        }

    def _priority_class(self, priority: str) -> str:
        path, name = "/apis/scheduling.k8s.io/v1/priorityclasses", f"{self.name}-{priority}"
        if not exists(self.cluster, f"{path}/{name}"):
            self._create_everywhere(path, priority, PRIORITIES[priority])
        return name

    def _condition(self, pod: str) -> str:
        found = self._scheduled(pod)
        return f"{found.get('reason', '')}: {found.get('message', '')}" if found else ""

    def _scheduled(self, pod: str) -> Json:
        conditions = self._read("v1/pods", pod)["status"].get("conditions", ())
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def _path(self, of: str, name: str = "") -> str:
        group, _, resource = of.rpartition("/")
        root = "api" if group == "v1" else "apis"
        path = f"/{root}/{group}/namespaces/{self.name}/{resource}"
        return f"{path}/{name}" if name else path

    def _read(self, of: str, name: str = "") -> Json:
        return ask(self.cluster, "GET", self._path(of, name))

    def _create(self, of: str, body: Json) -> None:
        ask(self.cluster, "POST", self._path(of), body)

    def _create_everywhere(self, path: str, name: str, body: Json) -> str:
        """Create an object of no namespace, under a name that no other team has."""
        name = f"{self.name}-{name}"
        self._post(path, {"metadata": {"name": name}, **body})
        return name

    def _post(self, path: str, body: Json) -> None:
        ask(self.cluster, "POST", path, body)
        self._cleanup.callback(self._forget, f"{path}/{body['metadata']['name']}")

    def _forget(self, path: str) -> None:
        with contextlib.suppress(ApiError):
            ask(self.cluster, "DELETE", path)
