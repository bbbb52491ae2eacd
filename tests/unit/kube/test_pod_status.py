import json
import random
from dataclasses import replace

import pytest
from msgspec import UNSET

from scheduler.errors import Conflict, Forbidden, NotFound, Rejected, Throttled, Unreachable
from scheduler.framework.decision import CLEAR, KEEP, SetTo
from scheduler.kube.pod_status import (
    PATCH_RETRIES,
    NotPatched,
    Obsolete,
    Patched,
    condition_patch,
    nomination_change,
    nomination_patch,
    patch_status,
    target_patch,
    withdrawal_patch,
)
from scheduler.model.meta import Condition, ObjectMeta
from scheduler.model.pod import Pod
from scheduler.model.pod_spec import PodStatus

NOW = "2026-07-01T12:00:00Z"
BEFORE = "2026-07-01T11:00:00Z"


def make_pod(*conditions, nominated="", generation=3):
    return Pod(
        metadata=ObjectMeta(name="web", namespace="shop", uid="u1", generation=generation),
        status=PodStatus(conditions=conditions, nominated_node_name=nominated),
    )


def scheduled_condition(status="False", reason="Unschedulable", message="0/1 nodes", generation=2):
    return Condition(
        type="PodScheduled",
        status=status,
        reason=reason,
        message=message,
        last_transition_time=BEFORE,
        observed_generation=generation,
    )


def patch_of(pod, reason="Unschedulable", message="0/1 nodes", nominated_node=KEEP):
    patch = condition_patch(
        pod, reason=reason, message=message, nominated_node=nominated_node, now=NOW
    )
    return patch and json.loads(patch)


def test_a_first_verdict_is_a_whole_condition_bound_to_the_uid():
    assert patch_of(make_pod()) == {
        "metadata": {"uid": "u1"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes",
                    "lastProbeTime": None,
                    "lastTransitionTime": NOW,
                    "observedGeneration": 3,
                }
            ]
        },
    }


def test_the_same_verdict_is_not_written_again_even_for_a_newer_generation():
    assert patch_of(make_pod(scheduled_condition(generation=2), generation=9)) is None


@pytest.mark.parametrize(
    ("existing", "stamp"),
    [
        (scheduled_condition(message="other"), BEFORE),
        (scheduled_condition(reason="SchedulerError"), BEFORE),
        (scheduled_condition(status="True"), NOW),
        (scheduled_condition(status="Unknown"), NOW),
        (Condition(type="PodScheduled", status="False"), NOW),
    ],
)
def test_the_transition_time_moves_only_with_the_status(existing, stamp):
    patch = patch_of(make_pod(existing))

    assert patch["status"]["conditions"][0]["lastTransitionTime"] == stamp


def test_a_pod_without_generation_gets_no_observed_generation():
    patch = patch_of(make_pod(generation=0))

    assert "observedGeneration" not in patch["status"]["conditions"][0]


def test_a_long_message_is_written_in_full():
    message = "0/5000 nodes: " + "x" * 9000

    assert patch_of(make_pod(), message=message)["status"]["conditions"][0]["message"] == message


@pytest.mark.parametrize(
    ("nominated", "order", "change"),
    [
        ("", KEEP, UNSET),
        ("n1", KEEP, UNSET),
        ("", CLEAR, UNSET),
        ("n1", CLEAR, None),
        ("", SetTo("n1"), "n1"),
        ("n1", SetTo("n1"), UNSET),
        ("n1", SetTo("n2"), "n2"),
    ],
)
def test_a_nomination_changes_only_where_it_differs(nominated, order, change):
    assert nomination_change(make_pod(nominated=nominated), order) == change


def test_a_changed_nomination_is_written_although_the_condition_stays():
    patch = patch_of(make_pod(scheduled_condition(), nominated="n1"), nominated_node=CLEAR)

    assert patch["status"]["nominatedNodeName"] is None
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == BEFORE


def test_a_nomination_can_be_written_alone():
    pod = make_pod(nominated="n1")

    assert json.loads(nomination_patch(pod, SetTo("n2"))) == {
        "metadata": {"uid": "u1"},
        "status": {"nominatedNodeName": "n2"},
    }
    assert nomination_patch(pod, SetTo("n1")) is None


class PodStatusApi:
    """Takes patches of one pod; the next answers may be faults."""

    def __init__(self, *faults):
        self.faults = list(faults)
        self.written = []
        self.tries = 0

    async def patch(self, path, body, content_type, params=None):
        assert path == "/api/v1/namespaces/shop/pods/web/status"
        assert content_type == "application/strategic-merge-patch+json"
        self.tries += 1
        if self.faults:
            raise self.faults.pop(0)
        self.written.append(body)
        return b"{}"


class Sleeps(list):
    async def __call__(self, seconds):
        self.append(seconds)


async def outcome_of(api):
    sleeps = Sleeps()
    settings = replace(PATCH_RETRIES, sleep=sleeps, rng=random.Random(1))
    return await patch_status(api, make_pod(), b"{}", settings=settings), sleeps


async def test_transient_failures_are_repeated_with_growing_pauses():
    api = PodStatusApi(Unreachable("500"), Conflict("object was modified"), Unreachable("reset"))

    outcome, sleeps = await outcome_of(api)

    assert outcome == Patched()
    assert api.written == [b"{}"]
    assert sleeps == pytest.approx([0.01, 0.05, 0.25], rel=0.11)


async def test_four_failures_are_the_end():
    api = PodStatusApi(*[Unreachable(f"500 number {i}") for i in range(9)])

    outcome, sleeps = await outcome_of(api)

    assert outcome == NotPatched("500 number 3")
    assert api.tries == 4
    assert len(sleeps) == 3


@pytest.mark.parametrize(
    "error",
    [
        NotFound('pods "web" not found'),
        Rejected('Pod "web" is invalid: metadata.uid: Invalid value: "u1": field is immutable'),
        Conflict("uid mismatch: the provided object specified uid u1, and no existing object"),
        Conflict("Precondition failed: UID in precondition: u1, UID in object meta: u2"),
        Rejected(
            'Pod "web" is invalid: status.nominatedNodeName: Forbidden: '
            "may not be set on pods that are already bound to a node"
        ),
    ],
)
async def test_a_pod_that_is_gone_or_replaced_or_bound_is_left_alone(error):
    api = PodStatusApi(error)

    outcome, _ = await outcome_of(api)

    assert outcome == Obsolete(str(error))
    assert api.tries == 1


@pytest.mark.parametrize("error", [Forbidden("no rights on fluid"), Rejected("bad guid")])
async def test_a_refusal_is_not_repeated(error):
    api = PodStatusApi(error)

    outcome, _ = await outcome_of(api)

    assert outcome == NotPatched(str(error))
    assert api.tries == 1


async def test_throttling_is_waited_out_and_is_no_failed_attempt():
    api = PodStatusApi(*[Throttled("429", retry_after_seconds=1.5) for _ in range(5)])

    outcome, sleeps = await outcome_of(api)

    assert outcome == Patched()
    assert sleeps == [1.5] * 5


async def test_throttling_without_end_is_given_up():
    api = PodStatusApi(*[Throttled("429", retry_after_seconds=6) for _ in range(5)])

    outcome, sleeps = await outcome_of(api)

    assert outcome == NotPatched("429")
    assert sleeps == [6]


# Patches for victims and nominees.


def doomed(status="True", reason="PreemptionByScheduler", message=None):
    text = message or "ours: preempting to accommodate a higher priority pod"
    return Condition(
        type="DisruptionTarget",
        status=status,
        reason=reason,
        message=text,
        last_transition_time=BEFORE,
    )


@pytest.mark.parametrize(
    ("known", "since"),
    [
        ((), NOW),
        ((doomed(reason="EvictionByEvictionAPI"),), BEFORE),
        ((doomed(message="theirs: preempting"),), BEFORE),
        ((doomed(status="False"),), NOW),
    ],
)
def test_a_victim_gets_the_condition_that_it_lacks(known, since):
    patch = json.loads(target_patch(make_pod(*known), "ours", NOW))

    (condition,) = patch["status"]["conditions"]
    assert condition["lastTransitionTime"] == since
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
    )
    assert condition["message"] == "ours: preempting to accommodate a higher priority pod"
    assert condition["observedGeneration"] == 3


def test_a_victim_with_the_condition_is_not_patched_again():
    assert target_patch(make_pod(doomed()), "ours", NOW) is None


def test_a_nomination_is_withdrawn_by_name():
    patch = json.loads(withdrawal_patch(make_pod(nominated="a")))

    assert patch["status"] == {"nominatedNodeName": None}
