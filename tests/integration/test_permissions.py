"""Take any single verb away from the roles of the chart, and somebody notices.

`py-scheduler check` names the very verb. And it is missed for real: each verb that writes has a
story that comes true with it and not without it; without one that reads, the scheduler says so and
does not begin. (That nothing is granted beyond that, is what tests/e2e shows.)
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pytest

from hack.api import ApiError, request, request_text
from hack.control_plane import ControlPlane
from hack.kubeconfig import Access, read_kubeconfig
from hack.ports import LOOPBACK
from scheduler.checkup import Mark, check, rules
from scheduler.config.run_settings import RunSettings
from scheduler.kube.permissions import lease_permissions, resource_permissions, review_permissions
from tests.integration.proxy import Proxy, Rule
from tests.integration.world import (
    OURS,
    SHORT_LEASE,
    World,
    configuration,
    profile,
    scheduler_process,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hack.api import Json

pytestmark = pytest.mark.integration

NAME = "granted"
FOLLOWED = "permissions"
SYSTEM = "kube-system"
ZONE = "topology.kubernetes.io/zone"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_FOLLOWED = "/apis/py-scheduler.dev/v1alpha1/schedulerconfigurations"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"

_numbers = itertools.count(1)


class Grant(NamedTuple):
    """One verb on one resource; a named one counts for the object of that name alone."""

    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb}-{self.resource}"

    @property
    def kubectl_name(self) -> str:
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}".rstrip(".") + slash + subresource

    @property
    def rule(self) -> Json:
        named = {"resourceNames": [self.name]} if self.name else {}
        return {
            "apiGroups": [self.group],
            "resources": [self.resource],
            "verbs": [self.verb],
            **named,
        }


def each_of(found: Iterable[Json]) -> list[Grant]:
    return [
        Grant(group, resource, verb, *rule.get("resourceNames", ()))
        for rule in found
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


# What the chart grants: tests/integration/test_chart.py.
EVERYWHERE = each_of(each.rule for each in rules(RunSettings()))
LEASE = each_of(each.rule for each in lease_permissions(SYSTEM, OURS))
OBJECT = each_of(each.rule for each in resource_permissions(FOLLOWED))
GRANTS = EVERYWHERE + LEASE + OBJECT
READS = ("list", "watch")


class Account:
    """A service account that may do what is granted to it, which can change at any time."""

    def __init__(self, plane: ControlPlane, granted: Collection[Grant]) -> None:
        self.name = f"account-{next(_numbers)}"
        self._plane = plane
        self._granted = granted

    def __enter__(self) -> Self:
        plane, metadata = self._plane, {"name": self.name}
        accounts = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts"
        plane.request("POST", accounts, {"metadata": metadata})
        plane.request("POST", f"{_RBAC}/clusterroles", self._role(self._granted))
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.name}
        subjects = [{"kind": "ServiceAccount", "name": self.name, "namespace": SYSTEM}]
        bound = {"metadata": metadata, "roleRef": role, "subjects": subjects}
        plane.request("POST", f"{_RBAC}/clusterrolebindings", bound)
        self.kubeconfig = plane.service_account_kubeconfig(SYSTEM, self.name)
        self._access = read_kubeconfig(self.kubeconfig)
        for each in self._granted:
            self._await(each, allowed=True)
        return self

    def __exit__(self, *_: object) -> None:
        for path in ("clusterrolebindings", "clusterroles"):
            self._plane.request("DELETE", f"{_RBAC}/{path}/{self.name}")

    @contextlib.contextmanager
    def without(self, gone: Grant) -> Iterator[None]:
        """Take one grant away until the block is left."""
        self._grant([each for each in self._granted if each != gone])
        self._await(gone, allowed=False)
        yield
        self._grant(self._granted)
        self._await(gone, allowed=True)

    def _role(self, granted: Collection[Grant]) -> Json:
        return {"metadata": {"name": self.name}, "rules": [each.rule for each in granted]}

    def _grant(self, granted: Collection[Grant]) -> None:
        path = f"{_RBAC}/clusterroles/{self.name}"
        self._plane.request("PUT", path, self._role(granted))

    def _await(self, grant: Grant, *, allowed: bool) -> None:
        """Wait until the API server's authorizer has heard of it."""
        resource, _, subresource = grant.resource.partition("/")
        attributes = {
            "group": grant.group,
            "resource": resource,
            "subresource": subresource,
            "verb": grant.verb,
            "name": grant.name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }

        def said() -> bool:
            answer = request(self._access, "POST", _REVIEWS, body)
            return bool(answer["status"]["allowed"] is allowed)

        until(said, f"{grant} is {'allowed' if allowed else 'refused'}")


# Asked beforehand.


@pytest.fixture(scope="module")
def complete(control_plane) -> Iterator[Account]:
    """An account with everything that is needed."""
    with Account(control_plane, GRANTS) as account:
        yield account


@pytest.fixture(scope="module")
def followed(control_plane, resource) -> str:
    """The path of an object that tells the configuration; it goes with its resource."""
    live = ("apiVersion", "kind", "profiles")
    document = {
        key: value
        for key, value in configuration(profiles=[profile(FOLLOWED)]).items()
        if key in live
    }
    body = {
        "apiVersion": "py-scheduler.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "metadata": {"name": FOLLOWED},
        "spec": {"configuration": document},
    }
    control_plane.request("POST", _FOLLOWED, body)
    return f"{_FOLLOWED}/{FOLLOWED}"


@pytest.mark.parametrize("gone", GRANTS, ids=str)
def test_check_names_any_verb_that_is_missing(complete, followed, gone):
    settings = RunSettings(kubeconfig=str(complete.kubeconfig), config_resource=FOLLOWED)
    with complete.without(gone):
        failed = [each for each in check(settings) if each.mark is Mark.FAILED]

    (row,) = failed
    assert re.match(rf"may \S*\b{gone.verb}\b\S* {re.escape(gone.kubectl_name)}( |$)", row.what)
    assert row.detail.startswith(f"missing: {gone.verb}. ")


# Missed for real: who reads.


@pytest.fixture(scope="module")
def without_streaming() -> Iterator[ControlPlane]:
    """An API server that knows no streaming lists, as older ones."""
    with ControlPlane(apiserver_flags=["--feature-gates=WatchList=false"]) as plane:
        yield plane


@pytest.mark.parametrize("verb", READS)
def test_scheduler_does_not_begin_without_any_verb_that_reads(verb, request):
    """Each resource is told of by itself, so that one run shows it for all of them."""
    # Where lists are streamed they are watched, and nobody asks for a list.
    plane = request.getfixturevalue("without_streaming" if verb == "list" else "control_plane")
    gone = {each.resource for each in EVERYWHERE if each.verb == verb}
    rest = [each for each in EVERYWHERE if each.verb != verb]
    with (
        Account(plane, rest) as account,
        scheduler_process(plane, kubeconfig=account.kubeconfig, ready=False) as started,
    ):

        def refused():
            said = " ".join(json.dumps(line) for line in started.lines("watch.refused"))
            return all(f'cannot {verb} resource \\"{each}\\"' in said for each in gone)

        until(refused, f"refusals of {gone}")
        assert not started.is_ready()


# Missed for real: who writes.


class Stage:
    """A scheduler under an account of its own, behind a proxy that sees what it asks."""

    def __init__(self, account: Account, proxy: Proxy, scheduler: Any) -> None:
        self.account = account
        self.proxy = proxy
        self.scheduler = scheduler


@pytest.fixture(scope="module")
def stage(control_plane, complete) -> Iterator[Stage]:
    config = configuration(profiles=[profile(NAME)])
    with (
        Proxy(control_plane, behind=complete.kubeconfig) as proxy,
        scheduler_process(control_plane, kubeconfig=proxy.kubeconfig, config=config) as started,
    ):
        yield Stage(complete, proxy, started)


def a_pod_is_bound(world, stage):
    world.nodes("a", cpu="1")
    pod = world.pod(scheduler=NAME)
    return lambda: world.node_of(pod)


def a_pod_is_told_why_it_waits(world, stage):
    world.nodes("a", cpu="1")
    pod = world.pod(cpu="9", scheduler=NAME)
    return lambda: "Insufficient cpu" in "".join(world._condition(pod))


def a_binding_is_told(world, stage):
    world.nodes("a", cpu="1")
    pod = world.pod(scheduler=NAME)
    world.expect_scheduled(pod)
    return lambda: world.events(pod, "Scheduled")


def a_repeated_refusal_is_counted(world, stage):
    world.nodes("a", cpu="2")
    small = world.pods(2, cpu="1", scheduler=NAME)
    world.expect_all_scheduled(small)
    big = world.pod(cpu="2", scheduler=NAME)
    until(lambda: world.events(big, "FailedScheduling"))
    world.delete_pod(small[0])
    return lambda: [each for each in world.events(big) if each.get("series")]


def room_is_made(world, stage):
    world.nodes("a", cpu="1")
    world.expect_scheduled(world.pod(scheduler=NAME))
    # The only class that there always is.
    urgent = world.pod(scheduler=NAME, priorityClassName="system-cluster-critical")
    return lambda: world.node_of(urgent)


def a_lost_answer_is_made_good(world, stage):
    world.nodes("a", cpu="1")
    stage.proxy.add(Rule("POST", "/binding", lose="answer", times=1))
    pod = world.pod(scheduler=NAME)
    return lambda: stage.proxy.count("GET", f"/{world.namespace}/pods/{pod}$", 200)


def a_waiting_claim_is_bound(world, stage):
    """By a patch of the volume, where there is one."""
    waiting = _storage_class(world)
    world.nodes("a", cpu="1")
    spec = {
        "storageClassName": waiting,
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "csi.example.com", "volumeHandle": waiting},
    }
    body = {"metadata": {"name": waiting}, "spec": spec}
    world.plane.request("POST", "/api/v1/persistentvolumes", body)
    pod = _mounting(world, _claim(world, waiting))
    return lambda: world.node_of(pod)


def a_provisioner_is_told_the_node(world, stage):
    """By a patch of the claim, where there is no volume yet."""
    waiting = _storage_class(world, provisioner="csi.example.com")
    world.nodes("a", cpu="1")
    claim = _claim(world, waiting)
    _mounting(world, claim)
    path = f"/api/v1/namespaces/{world.namespace}/persistentvolumeclaims/{claim}"
    return lambda: (
        "volume.kubernetes.io/selected-node"
        in world.plane.request("GET", path)["metadata"].get("annotations", {})
    )


def _storage_class(world: World, *, provisioner: str = "kubernetes.io/no-provisioner") -> str:
    name = f"{world.namespace}-{next(_numbers)}"
    body = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    world.plane.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    return name


def _claim(world: World, of: str) -> str:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": resources}
    world.create("v1/persistentvolumeclaims", {"metadata": {"name": of}, "spec": spec})
    return of


def _mounting(world: World, claim: str) -> str:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return world.pod(scheduler=NAME, volumes=[volume])


EVENTS = "events.k8s.io"
REVIEWS = each_of(each.rule for each in review_permissions())
STORIES: dict[Grant, tuple[Callable[[World, Stage], Any], tuple[str, str]]] = {
    Grant("", "pods/binding", "create"): (a_pod_is_bound, ("POST", "/binding$")),
    Grant("", "pods/status", "patch"): (a_pod_is_told_why_it_waits, ("PATCH", "/status$")),
    Grant("", "pods", "get"): (a_lost_answer_is_made_good, ("GET", "/pods/[^/]+$")),
    Grant("", "pods", "delete"): (room_is_made, ("DELETE", "/pods/[^/]+$")),
    Grant("", "persistentvolumes", "patch"): (
        a_waiting_claim_is_bound,
        ("PATCH", "/persistentvolumes/"),
    ),
    Grant("", "persistentvolumeclaims", "patch"): (
        a_provisioner_is_told_the_node,
        ("PATCH", "/persistentvolumeclaims/"),
    ),
    Grant(EVENTS, "events", "create"): (a_binding_is_told, ("POST", "/events$")),
    Grant(EVENTS, "events", "patch"): (a_repeated_refusal_is_counted, ("PATCH", "/events/")),
}


@pytest.mark.parametrize("gone", STORIES, ids=str)
def test_no_verb_that_writes_can_be_spared(control_plane, world, stage, gone):
    story, (method, path) = STORIES[gone]
    mine = World(control_plane, world.namespace, *world.schedulers, stage.scheduler)
    with stage.account.without(gone):
        before = stage.proxy.count(method, path, 403)
        done = story(mine, stage)
        until(lambda: stage.proxy.count(method, path, 403) > before, f"{gone} is missed")
        assert not done()
    mine.clear()
    until(story(mine, stage), f"{story.__name__}, with {gone}")


LED = configuration(profiles=[profile("led")], leaderElection={**SHORT_LEASE, "resourceName": OURS})
WATCH_LEASE = Grant("coordination.k8s.io", "leases", "watch", OURS)


@pytest.mark.parametrize("gone", [each for each in LEASE if each != WATCH_LEASE], ids=str)
def test_no_replica_leads_without_every_verb_on_the_lease(control_plane, gone):
    with contextlib.suppress(ApiError):
        control_plane.request("DELETE", f"{_LEASES}/{OURS}")
    if gone.verb == "update":
        control_plane.request("POST", _LEASES, {"metadata": {"name": OURS}})
    with (
        Account(control_plane, [each for each in GRANTS if each != gone]) as account,
        scheduler_process(control_plane, kubeconfig=account.kubeconfig, config=LED) as started,
    ):

        def refused():
            lines = started.lines("lease.awaited", level="warning")
            return any(f"cannot {gone.verb}" in json.dumps(line) for line in lines)

        until(refused, "the refusal is told")
        assert not started.lines("lease.acquired")
        assert started.metric("leader_election_master_status") == 0


@pytest.mark.parametrize("may", [True, False])
def test_a_standby_watches_the_lease_by_its_name_or_asks_for_it(control_plane, complete, may):
    """Without the verb it is told what is missing, and takes over nevertheless."""
    with contextlib.suppress(ApiError):
        control_plane.request("DELETE", f"{_LEASES}/{OURS}")
    held = {"holderIdentity": "somebody", "leaseDurationSeconds": 3}
    control_plane.request("POST", _LEASES, {"metadata": {"name": OURS}, "spec": held})
    with (
        contextlib.nullcontext() if may else complete.without(WATCH_LEASE),
        Proxy(control_plane, behind=complete.kubeconfig) as proxy,
        scheduler_process(control_plane, kubeconfig=proxy.kubeconfig, config=LED) as started,
    ):
        started.expect_line("lease.acquired")
        by_name = ("WATCH", rf"/leases\?.*metadata\.name(=|%3D){OURS}&", 200)
        assert proxy.count(*by_name if may else ("GET", "/leases$", 403))
        said = [line["error"] for line in started.lines("lease.unwatched")]
        assert [f"cannot {WATCH_LEASE.verb}" in each for each in said] == [True] * (not may)


@pytest.fixture(scope="module")
def served(control_plane, complete) -> Iterator[Callable[[], int]]:
    """Ask for metrics over HTTPS, each time as somebody new who may read them."""
    with (
        Account(control_plane, []) as reader,
        scheduler_process(
            control_plane, kubeconfig=complete.kubeconfig, ready=False, secure=True
        ) as started,
    ):
        metrics = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
        role = {"metadata": {"name": reader.name}, "rules": [metrics]}
        control_plane.request("PUT", f"{_RBAC}/clusterroles/{reader.name}", role)
        started.expect_line("endpoint.opened")

        def status() -> int:
            # Verdicts are remembered for a while, by token.
            fresh = control_plane.service_account_kubeconfig(SYSTEM, reader.name)
            access = Access(
                f"https://{LOOPBACK}:{started.port}",
                ssl._create_unverified_context(),
                read_kubeconfig(fresh).headers,
            )
            return request_text(access, "GET", "/metrics")[0]

        until(lambda: status() == 200, "the reader may read")
        yield status


@pytest.mark.parametrize("gone", REVIEWS, ids=str)
def test_metrics_are_refused_without_every_verb_on_reviews(complete, served, gone):
    with complete.without(gone):
        assert served() == 500
    assert served() == 200


@pytest.mark.parametrize("gone", OBJECT, ids=str)
def test_no_object_is_followed_without_any_verb_on_it(control_plane, complete, followed, gone):
    """Without reading it no replica is ready; without writing its status no result is shown."""
    config = {key: value for key, value in configuration().items() if not key.startswith("pod")}
    method = "PATCH" if gone.verb == "patch" else "GET"
    with (
        complete.without(gone),
        Proxy(control_plane, behind=complete.kubeconfig) as proxy,
        scheduler_process(
            control_plane,
            "--config-resource",
            FOLLOWED,
            kubeconfig=proxy.kubeconfig,
            config=config,
            ready=gone.verb == "patch",
        ) as started,
    ):
        until(lambda: proxy.count(method, "/schedulerconfigurations", 403), f"{gone} is missed")
        assert started.is_ready() == (gone.verb == "patch")
        assert not control_plane.request("GET", followed).get("status")


def test_no_grant_is_without_a_test():
    reads = {each for each in EVERYWHERE if each.verb in READS}

    assert reads | {*STORIES, *REVIEWS, *LEASE, *OBJECT} == set(GRANTS)
    assert WATCH_LEASE in LEASE
