"""The vocabulary of the integration tests: nodes, pods, schedulers, and what is expected of them.

    world.nodes("a", "b", cpu="4")
    pod = world.pod(cpu="3")
    assert world.expect_scheduled(pod, on={"a", "b"})

A world is one namespace of a control plane and one scheduler in a process of its own. What a test
expects is polled for until it is so, or until a generous deadline.

Watches of different resources are not ordered among each other, so `World.nodes` returns only when
the scheduler knows the nodes: messages that count nodes would tell of fewer otherwise.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hack import waiting
from hack.api import MERGE_PATCH, STRATEGIC_PATCH, ApiError
from hack.background import Background
from hack.manifests import objects, template
from hack.nodes import node
from hack.running_scheduler import RunningScheduler

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from hack.api import Json
    from hack.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 30.0
OURS = "py-scheduler"
SHORT_LEASE = {
    "leaderElect": True,
    "leaseDuration": "3s",
    "renewDeadline": "2s",
    "retryPeriod": "500ms",
    "resourceNamespace": "kube-system",
}
RESOURCE = "crd/schedulerconfigurations.py-scheduler.dev"

_POLL_SECONDS = 0.03
_NODES = "/api/v1/nodes"
# Many times what a decision takes; a longer pause would only make the tests slower.
_SETTLE_SECONDS = 0.3

_numbers = itertools.count(1)
running: list[Scheduler] = []
"""The schedulers of the test that runs, for its failure report."""


def until(holds: Callable[[], Any], what: str = "", *, seconds: float = DEADLINE_SECONDS) -> Any:
    """Ask until *holds* returns something true, and return that."""
    return waiting.until(holds, what, seconds=seconds)


def configuration(**fields: Any) -> Json:
    """Return a KubeSchedulerConfiguration that wastes no time on backoffs."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 500, "burst": 500},
        **fields,
    }


def profile(name: str, *, score: Sequence[str] | None = None, **args: Any) -> Json:
    """Return a profile; *score* names the only plugins that score, *args* plugin arguments."""
    only = {
        "disabled": [{"name": "*"}],
        "enabled": [{"name": each, "weight": 1} for each in score or ()],
    }
    return {
        "schedulerName": name,
        **({} if score is None else {"plugins": {"score": only}}),
        "pluginConfig": [{"name": plugin, "args": value} for plugin, value in args.items()],
    }


class Scheduler(RunningScheduler):
    """A scheduler whose log lines a test waits for."""

    def expect_line(self, event: str, **fields: Any) -> Json:
        """Wait for such a line and return the first."""
        what = f"a line {event} {fields} in {self.process.log}"
        found: list[Json] = until(lambda: self.lines(event, **fields), what)
        return found[0]


@contextlib.contextmanager
def scheduler_process(
    plane: ControlPlane,
    *flags: str,
    kubeconfig: Path | None = None,
    config: Mapping[str, Any] | None = None,
    ready: bool = True,
    secure: bool = False,
) -> Iterator[Scheduler]:
    """Run py-scheduler; it is asked to end when the block is left.

    Args:
        flags: Further flags.
        kubeconfig: Who it is; an administrator by default.
        config: A document; see `configuration`. Without one there is no leader election, unless
            *flags* say so.
        ready: Whether to wait until it has seen the whole cluster.
        secure: Whether its endpoint is served over HTTPS, which `Scheduler.get` cannot ask.
    """
    scheduler = Scheduler(
        plane,
        *flags,
        name=f"py-scheduler-{next(_numbers)}",
        config=config,
        kubeconfig=kubeconfig,
        secure=secure,
    )
    with scheduler:
        running.append(scheduler)
        if ready:
            scheduler.wait_until_ready(seconds=DEADLINE_SECONDS)
        yield scheduler
        # An unhandled exception is a defect, whatever a test does to the scheduler.
        assert "Traceback" not in scheduler.log, scheduler.log


def install_resource(plane: ControlPlane) -> None:
    """Install `RESOURCE` as the chart does, and wait until it is served."""
    rendered = objects(template("--no-hooks", "--set", "configResource.name=main"))
    (crd,) = [each for each in rendered if each["kind"] == "CustomResourceDefinition"]
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(crd))
    plane.kubectl("wait", "--for=condition=Established", RESOURCE)


def refused(count: int, reason: str) -> str:
    """Return what a pod is told whom all of *count* nodes refuse for one reason."""
    return f"0/{count} nodes are available: {count} {reason}."


def _filters_part(message: str) -> str:
    """Return a pod's message without what the post-filter plugins add."""
    return re.sub(r" (no new claims to deallocate.*|not found)$", "", message)


def _node_facts(scheduler: Scheduler) -> float:
    """Return how many changes of nodes a scheduler has applied."""
    counts = re.findall(
        r'scheduler_event_handling_duration_seconds_count{event="Node\w+"} (\S+)',
        scheduler.get("/metrics")[1],
    )
    return sum(map(float, counts))


class World:
    """One namespace, the nodes of one test, and a scheduler that looks after both."""

    def __init__(self, plane: ControlPlane, namespace: str, *schedulers: Scheduler) -> None:
        self.plane = plane
        self.namespace = namespace
        self.schedulers = schedulers
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._numbers = itertools.count(1)

    # Nodes.

    def nodes(self, *names: str, **each: Any) -> None:
        """Create plain, ready nodes (see `hack.nodes.node`) and wait until they are known."""
        for name in names:
            self.post_node(node(name, kwok=False, **each))
        self.await_known_nodes()

    def post_node(self, described: Json) -> Json:
        """Create a node exactly as described."""
        return self.plane.request("POST", _NODES, described)

    def await_known_nodes(self) -> None:
        """Wait until every scheduler knows as many nodes as there are."""
        count = len(self.plane.request("GET", _NODES)["items"])
        for scheduler in self.schedulers:
            until(
                lambda scheduler=scheduler: (
                    scheduler.metric("scheduler_cache_size", type="nodes") == count
                ),
                f"{count} nodes in the scheduler's cache",
            )

    def change_node(self, name: str, **spec: Any) -> None:
        """Merge into a node's spec."""
        # A cordon is no event for any pod, so schedulers do not count it; a new label is counted.
        labels = {"changed": str(next(_numbers))} if spec.get("unschedulable") else {}
        self._patch(f"{_NODES}/{name}", {"spec": spec, "metadata": {"labels": labels}})

    def label_node(self, name: str, **labels: str | None) -> None:
        """Set labels of a node, or remove those that are None."""
        self._patch(f"{_NODES}/{name}", {"metadata": {"labels": labels}})

    def change_node_status(self, name: str, **status: Any) -> None:
        """Merge into a node's status, as its kubelet does."""
        self._patch(f"{_NODES}/{name}/status", {"status": status})

    def delete_node(self, name: str) -> None:
        """Delete a node; its pods stay, and keep its name in the scheduler's cache."""
        with self._node_change():
            self.plane.request("DELETE", f"{_NODES}/{name}")

    def _patch(self, path: str, body: Json) -> None:
        with self._node_change():
            self.plane.request("PATCH", path, body, content_type=MERGE_PATCH)

    @contextlib.contextmanager
    def _node_change(self) -> Iterator[None]:
        """Wait until every scheduler has applied the change of a node that is made inside.

        Schedulers count the facts they apply. On a busy machine no fixed pause is long enough for
        a watch, and a pod created next would be decided about with the old node.
        """
        before = [_node_facts(scheduler) for scheduler in self.schedulers]
        yield
        for scheduler, count in zip(self.schedulers, before, strict=True):
            until(
                lambda scheduler=scheduler, count=count: _node_facts(scheduler) > count,
                "the change of a node is applied",
            )

    def settle(self) -> None:
        """Give the scheduler time to do what it must not do: for tests that nothing happens."""
        time.sleep(_SETTLE_SECONDS)

    # Pods.

    def pod(
        self,
        name: str | None = None,
        *,
        cpu: str = "1",
        requests: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        scheduler: str = OURS,
        ports: Sequence[int] = (),
        image: str = "example",
        **spec: Any,
    ) -> str:
        """Create a pod and return its name.

        Args:
            cpu: What it requests, unless *requests* say it in full.
            ports: Host ports.
            spec: Further fields of its spec, as the API spells them.
        """
        name = name or f"pod-{next(self._numbers)}"
        container: dict[str, Any] = {
            "name": "main",
            "image": image,
            "resources": {"requests": {"cpu": cpu} if requests is None else dict(requests)},
        }
        if requests is not None:
            # Extended resources cannot be overcommitted: the API wants a limit too.
            limits = {key: value for key, value in requests.items() if "/" in key}
            container["resources"]["limits"] = limits
        if ports:
            container["ports"] = [{"containerPort": each, "hostPort": each} for each in ports]
        self.plane.request(
            "POST",
            self.pods_path,
            {
                "metadata": {"name": name, "labels": dict(labels or {})},
                "spec": {
                    "schedulerName": scheduler,
                    "containers": [container],
                    "terminationGracePeriodSeconds": 0,
                    **spec,
                },
            },
        )
        return name

    def pods(self, count: int, **each: Any) -> list[str]:
        """Create *count* pods alike."""
        return [self.pod(**each) for _ in range(count)]

    def read(self, pod: str) -> Json:
        """Return a pod as the API server holds it."""
        return self.plane.request("GET", f"{self.pods_path}/{pod}")

    def all_pods(self) -> list[Json]:
        """Return all pods of the namespace."""
        items: list[Json] = self.plane.request("GET", self.pods_path)["items"]
        return items

    def node_of(self, pod: str) -> str:
        """Return where a pod is bound to; empty where it is not."""
        name: str = self.read(pod)["spec"].get("nodeName", "")
        return name

    def change_pod(self, pod: str, body: Json, *, subresource: str = "") -> None:
        """Patch a pod (strategically) or one of its subresources."""
        path = "/".join(filter(None, [self.pods_path, pod, subresource]))
        self.plane.request("PATCH", path, body, content_type=STRATEGIC_PATCH)

    def delete_pod(self, pod: str) -> None:
        """Delete a pod at once."""
        self.plane.request("DELETE", f"{self.pods_path}/{pod}", {"gracePeriodSeconds": 0})

    def bind(self, pod: str, target: str) -> None:
        """Bind a pod, as another scheduler would."""
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": target}}
        self.plane.request("POST", f"{self.pods_path}/{pod}/binding", body)

    def events(self, pod: str, reason: str = "") -> list[Json]:
        """Return what was told about a pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [
            event
            for event in self.plane.request("GET", path)["items"]
            if event["regarding"]["name"] == pod and reason in {"", event["reason"]}
        ]

    def create(self, path: str, body: Json) -> Json:
        """Create an object in the namespace; *path* as in ``v1/services``."""
        group, _, resource = path.rpartition("/")
        root = "api" if group == "v1" else "apis"
        where = f"/{root}/{group}/namespaces/{self.namespace}/{resource}"
        return self.plane.request("POST", where, body)

    # What is expected.

    def expect_scheduled(self, pod: str, *, on: str | Collection[str] = ()) -> str:
        """Wait until a pod is bound, check where, and return its node."""
        found: str = until(lambda: self.node_of(pod), f"{pod} is bound; {self._condition(pod)}")
        if on:
            wanted = {on} if isinstance(on, str) else set(on)
            assert found in wanted, f"{pod} is on {found}, not on {wanted}"
        return found

    def expect_all_scheduled(self, pods: Collection[str], *, seconds: float = 60.0) -> list[str]:
        """Wait until all of *pods* are bound and return their nodes."""
        wanted = set(pods)
        placed: dict[str, str] = {}

        def everywhere() -> bool:
            placed.update(
                (each["metadata"]["name"], each["spec"].get("nodeName", ""))
                for each in self.all_pods()
            )
            return all(placed.get(pod) for pod in wanted)

        until(everywhere, f"{len(wanted)} pods are bound", seconds=seconds)
        return [placed[pod] for pod in pods]

    def expect_unschedulable(
        self, pod: str, message: str, *, reason: str = "Unschedulable"
    ) -> None:
        """Wait until a pod's condition says exactly *message*, and check that it is pending.

        What preemption has to add counts only where *message* speaks of it.
        """
        deadline = time.monotonic() + DEADLINE_SECONDS
        wanted = ("False", reason, message)
        whole = "preemption: " in message
        while (said := self._condition(pod)) != wanted:
            if not whole and (*said[:2], _filters_part(said[2])) == wanted:
                break
            assert time.monotonic() < deadline, f"{pod}: {said}, not {wanted}"
            time.sleep(_POLL_SECONDS)
        assert not self.node_of(pod), f"{pod} is bound"

    def expect_skew(self, pods: Collection[str], groups: Mapping[str, str], maximum: int) -> None:
        """Check that *pods* differ by at most *maximum* between the groups of their nodes."""
        counts = dict.fromkeys(groups.values(), 0)
        for found in self.expect_all_scheduled(pods):
            counts[groups[found]] += 1
        assert max(counts.values()) - min(counts.values()) <= maximum, counts

    def _condition(self, pod: str) -> tuple[str, str, str]:
        for each in self.read(pod)["status"].get("conditions", ()):
            if each["type"] == "PodScheduled":
                return each["status"], each.get("reason", ""), each.get("message", "")
        return "", "", ""

    # The end.

    def clear(self) -> None:
        """Remove all pods and nodes, and wait until the schedulers know."""
        collection = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for path in ("apps/v1", "v1"):
            self._clear_owners(path)
        self.plane.request("DELETE", self.pods_path, collection)
        self.plane.request("DELETE", _NODES, {})
        until(lambda: not self.all_pods(), "all pods are gone")
        self.await_known_nodes()

    def _clear_owners(self, group: str) -> None:
        resources = {
            "apps/v1": ("deployments", "replicasets", "statefulsets"),
            "v1": ("replicationcontrollers",),
        }[group]
        root = "api" if group == "v1" else "apis"
        for resource in resources:
            path = f"/{root}/{group}/namespaces/{self.namespace}/{resource}"
            with contextlib.suppress(ApiError):
                self.plane.request("DELETE", path, {"propagationPolicy": "Background"})


class Placements(Background):
    """Records every node that every pod was ever seen on, by UID: there must be one at most."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(self._look)
        self.seen: dict[str, list[str]] = {}
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._look_once()
        moved = {uid: nodes for uid, nodes in self.seen.items() if len(nodes) > 1}
        assert not moved, f"pods that changed their node: {moved}"

    def _look(self, ending: threading.Event) -> None:
        while not ending.wait(_POLL_SECONDS):
            # The API server may be away, or be killed in the middle of an answer.
            with contextlib.suppress(OSError, HTTPException, ApiError, ValueError):
                self._look_once()

    def _look_once(self) -> None:
        for pod in self._plane.request("GET", self._path)["items"]:
            self._note(pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))

    def _note(self, uid: str, found: str) -> None:
        nodes = self.seen.setdefault(uid, [])
        # A node that was taken back would show as an empty name after another one.
        if (found or nodes) and found not in nodes[-1:]:
            nodes.append(found)
