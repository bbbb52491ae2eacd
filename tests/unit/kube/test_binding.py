import asyncio
import json
import random
from dataclasses import dataclass, field, replace

import pytest

from scheduler.errors import (
    Conflict,
    Forbidden,
    NotFound,
    Rejected,
    Throttled,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.binding import (
    BIND_RETRIES,
    SETTLE_SECONDS,
    BindObserver,
    Bound,
    Conflicted,
    NotBound,
    PodGone,
    bind,
    binding_body,
    judge_conflict,
)
from scheduler.model.meta import ObjectMeta
from scheduler.model.pod import Pod

POD_PATH = "/api/v1/namespaces/shop/pods/web"
POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1"))


@dataclass
class Lost:
    """A fault after the server has (or has not yet) carried out what was asked."""

    executed: bool


@dataclass
class BindingApi:
    """One pod on an API server.

    *posts* and *gets* are faults, in order: an error stands for an answer without effect, Lost for
    no answer.
    """

    posts: list = field(default_factory=list)
    gets: list = field(default_factory=list)
    uid: str | None = "u1"
    node: str = ""
    gated: bool = False
    posted: int = 0
    read: int = 0
    clock: float = 0.0
    later: list = field(default_factory=list)

    async def post(self, path, body, params=None):
        assert path == f"{POD_PATH}/binding"
        self.posted += 1
        binding = json.loads(body)
        fault = self.posts.pop(0) if self.posts else None
        match fault:
            case Lost(executed=False):
                raise Unreachable("no answer")
            case Lost(executed=True):
                self._assign(binding)
                raise Unreachable("no answer")
            case Exception():
                raise fault
        self._assign(binding)
        return b'{"kind":"Status","status":"Success"}'

    async def get(self, path, params=None):
        assert path == POD_PATH
        self.read += 1
        fault = self.gets.pop(0) if self.gets else None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            return fault
        if self.uid is None:
            raise NotFound('pods "web" not found')
        spec = {"nodeName": self.node} if self.node else {}
        return json.dumps({"metadata": {"name": "web", "uid": self.uid}, "spec": spec}).encode()

    async def sleep(self, seconds):
        self.clock += seconds
        for when, what in list(self.later):
            if when <= self.clock:
                self.later.remove((when, what))
                what()

    def _assign(self, binding):
        assert binding["target"] == {"kind": "Node", "name": binding["target"]["name"]}
        if self.uid is None:
            raise NotFound('pods "web" not found')
        if binding["metadata"]["uid"] != self.uid:
            raise Conflict("Precondition failed: UID in precondition: u1, UID in object meta: u2")
        if self.gated:
            raise Conflict("pod web has non-empty .spec.schedulingGates")
        if self.node:
            raise Conflict(f'pod web is already assigned to node "{self.node}"')
        self.node = binding["target"]["name"]


class Counts(BindObserver):
    def __init__(self):
        self.conflicts = self.lost = 0
        self.waits = []

    def conflicted(self):
        self.conflicts += 1

    def answer_lost(self, pod, why):
        self.lost += 1

    def throttled(self, seconds):
        self.waits.append(seconds)


def settings_for(api, seed=1):
    return replace(BIND_RETRIES, sleep=api.sleep, rng=random.Random(seed))


async def outcome_of(api, *, counts=None):
    return await bind(
        api,
        POD,
        "n1",
        settings=settings_for(api, seed=7),
        observer=counts or Counts(),
    )


def test_the_body_names_the_uid_and_carries_annotations_only_if_there_are_any():
    assert json.loads(binding_body(POD, "n1")) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "shop", "name": "web", "uid": "u1"},
        "target": {"kind": "Node", "name": "n1"},
    }
    annotated = json.loads(binding_body(POD, "n1", {"a": "b"}))
    assert annotated["metadata"]["annotations"] == {"a": "b"}


async def test_an_accepted_binding_takes_one_request():
    api = BindingApi()

    assert await outcome_of(api) == Bound("n1")
    assert (api.node, api.posted, api.read) == ("n1", 1, 0)


async def test_a_pod_that_another_client_bound_conflicts_and_is_not_posted_again():
    api, counts = BindingApi(node="n2"), Counts()

    outcome = await outcome_of(api, counts=counts)

    assert outcome == Conflicted("n2", 'pod web is already assigned to node "n2"')
    assert (api.node, api.posted, counts.conflicts) == ("n2", 1, 1)


@pytest.mark.parametrize("state", [{"uid": "u2"}, {"gated": True}])
async def test_a_recreated_or_gated_pod_conflicts_without_a_node(state):
    api = BindingApi(**state)

    outcome = await outcome_of(api)

    assert isinstance(outcome, Conflicted)
    assert outcome.node is None
    assert (api.node, api.posted) == ("", 1)


def test_a_conflict_that_names_our_node_means_bound():
    error = Conflict('409: pod web is already assigned to node "n1"')

    assert judge_conflict(error, "n1") == Bound("n1")
    assert judge_conflict(error, "n11") == Conflicted("n1", str(error))


async def test_a_deleted_pod_has_vanished():
    assert await outcome_of(BindingApi(uid=None)) == PodGone()


@pytest.mark.parametrize("error", [Forbidden("403"), Rejected("422"), Unauthorized("401")])
async def test_a_refusal_is_final(error):
    api = BindingApi(posts=[error])

    assert await outcome_of(api) == NotBound(str(error))
    assert api.posted == 1


async def test_throttling_is_obeyed_and_then_the_pod_is_bound():
    api, counts = BindingApi(posts=[Throttled("429", retry_after_seconds=3)] * 4), Counts()

    assert await outcome_of(api, counts=counts) == Bound("n1")
    assert counts.waits == [3] * 4
    assert counts.lost == counts.conflicts == 0
    assert 12 <= api.clock <= 12 * 1.1


async def test_throttling_without_end_is_a_refusal_after_bounded_waiting():
    api = BindingApi(posts=[Throttled("429: busy", retry_after_seconds=7)] * 99)

    assert await outcome_of(api) == NotBound("429: busy")
    assert api.clock <= 60 * 1.1


async def test_a_lost_answer_to_an_executed_binding_is_found_out_by_reading():
    api, counts = BindingApi(posts=[Lost(executed=True)]), Counts()

    assert await outcome_of(api, counts=counts) == Bound("n1")
    assert (api.posted, api.read, counts.lost) == (1, 1, 1)


async def test_a_lost_request_is_posted_again_only_after_the_pod_was_seen_unbound():
    api = BindingApi(posts=[Lost(executed=False)])

    assert await outcome_of(api) == Bound("n1")
    assert (api.posted, api.read) == (2, 1)


async def test_reading_back_goes_on_until_an_answer():
    trouble = [Unreachable("500"), Throttled("429"), Forbidden("403"), b"<html>", b"{}x"]
    api = BindingApi(posts=[Lost(executed=True)], gets=trouble * 20)

    assert await outcome_of(api) == Bound("n1")
    assert (api.posted, api.read) == (1, 101)


async def test_reading_back_pauses_longer_and_longer_up_to_a_limit():
    rng = random.Random(1)

    pauses = [BIND_RETRIES.backoff.seconds(failures, rng) for failures in range(2000)]

    assert all(0.05 <= pause <= 0.1 for pause in pauses[:1])
    assert all(5 <= pause <= 10 for pause in pauses[7:])


@pytest.mark.parametrize(
    ("node", "uid", "outcome"),
    [("n2", "u1", Conflicted("n2", "bound to n2")), ("", None, PodGone()), ("n1", "u2", PodGone())],
)
async def test_a_lost_answer_may_turn_out_badly(node, uid, outcome):
    api = BindingApi(posts=[Lost(executed=False)], node=node, uid=uid)

    assert await outcome_of(api) == outcome
    assert api.posted == 1


async def test_a_first_post_that_lands_after_it_was_read_back_unbound_is_ours():
    """The post was still on its way while the pod was read; the second post then meets a 409."""
    api = BindingApi(posts=[Lost(executed=False)])
    api.later.append((0.0, lambda: setattr(api, "node", "n1")))

    assert await outcome_of(api) == Bound("n1")
    assert api.posted == 2


async def test_a_conflict_on_a_second_post_is_read_back_before_it_is_believed():
    api = BindingApi(posts=[Lost(executed=False), Conflict("pod web is being deleted")])

    assert await outcome_of(api) == Conflicted(None, "pod web is being deleted")
    assert (api.posted, api.read) == (2, 2)


async def test_posting_is_given_up_only_once_nothing_posted_can_land_any_more():
    api = BindingApi(posts=[Lost(executed=False)] * 99)

    assert await outcome_of(api) == NotBound("no answer")
    assert api.posted == 5
    assert api.clock >= 60


async def test_a_post_that_lands_while_giving_up_is_ours():
    api = BindingApi(posts=[Lost(executed=False)] * 99)
    api.later.append((30.0, lambda: setattr(api, "node", "n1")))

    assert await outcome_of(api) == Bound("n1")


async def test_a_refusal_after_a_lost_answer_waits_for_what_was_lost():
    api = BindingApi(posts=[Lost(executed=False), Forbidden("403: quota of patience")])
    api.later.append((30.0, lambda: setattr(api, "node", "n1")))

    assert await outcome_of(api) == Bound("n1")
    assert api.posted == 2


async def test_a_binding_can_be_cancelled_while_no_answer_comes():
    api = BindingApi(posts=[Lost(executed=False)], gets=[Unreachable("down")] * 10_000)
    task = asyncio.create_task(bind(api, POD, "n1"))
    await asyncio.sleep(0.01)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("seed", range(60))
async def test_under_random_faults_the_outcome_is_what_the_server_holds(seed):
    """Whatever is lost, delayed or refused: Bound if and only if the pod is on our node."""
    rng = random.Random(seed)
    faults = [None, Lost(executed=True), Lost(executed=False), Throttled("429"), Conflict("odd")]
    api = BindingApi(
        posts=rng.choices(faults, k=12), gets=rng.choices([None, Unreachable("x")], k=12)
    )
    if rng.random() < 0.5:
        winner = rng.choice(["n1", "n2"])
        api.later.append((rng.uniform(0, 3), lambda: setattr(api, "node", api.node or winner)))

    outcome = await outcome_of(api)

    assert isinstance(outcome, Bound) == (api.node == "n1")


async def test_does_not_post_again_to_a_node_that_has_filled_after_a_429():
    api = BindingApi(posts=[Throttled("slow down", retry_after_seconds=1.0)])
    outcome = await bind(api, POD, "n1", settings=settings_for(api), objection=lambda: "it is full")

    assert outcome == NotBound("it is full")
    assert (api.posted, api.node) == (1, "")


async def test_an_objection_after_a_lost_answer_waits_until_the_first_post_is_dead():
    api = BindingApi(posts=[Lost(executed=False)])
    outcome = await bind(api, POD, "n1", settings=settings_for(api), objection=lambda: "it is full")

    assert outcome == NotBound("it is full")
    assert api.posted == 1
    assert api.clock >= SETTLE_SECONDS
