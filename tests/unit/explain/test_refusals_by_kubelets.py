"""What kubelets refused, as the failed pods of a snapshot tell."""

from tests.unit.explain.explain_calls import HEAD, explain_known, node, pod


def replica(name, at="", status=None):
    made = pod(name, at=at)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    made["status"] |= status or {}
    return made


def refused(name, at, when):
    status = {"phase": "Failed", "reason": "OutOfcpu", "startTime": f"2026-01-01T{when}Z"}
    return replica(name, at, status)


def seen_at(when):
    """Return something that dates a dump."""
    at = node("other", cpu="0")
    at["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T{when}Z"}
    ]
    return at


LATELY = "node(s) lately refused a pod of the same owner (OutOfcpu)"
WHY, DAY = "it lately refused a pod of the same owner (OutOfcpu)", "2026-01-01"


def test_a_distrusted_node_is_reported():
    """Failed pods say when they were refused; the newest time in a dump is the dump's."""
    cluster = (node("n"), refused("web-1", "n", "10:00:00"), replica("web-2"))
    said = explain_known(*cluster, seen_at("10:00:59"), name="web-2")

    assert said["decision"] == "Park"
    assert said["rejected"]["n"] == [{"plugin": "NodeTrust", "reason": LATELY, "resolvable": False}]
    assert said["notes"] == [
        f"as of {DAY}T10:00:59Z, pods of the same owner go to n not before {DAY}T10:01:00Z: {WHY}"
    ]


def test_an_expired_ban_leaves_a_trial():
    cluster = (node("n"), refused("web-1", "n", "10:00:00"), replica("web-2"))
    said = explain_known(*cluster, seen_at("10:01:00"), name="web-2")

    assert said["node"] == "n"
    assert said["notes"] == [
        f"as of {DAY}T10:01:00Z, pods of the same owner go to n one at a time: {WHY}"
    ]
    assert explain_known(*cluster, seen_at("10:12:00"), name="web-2")["notes"] == []


def test_a_node_that_refused_twice_is_avoided_for_longer():
    said = explain_known(
        node("n"),
        refused("web-2", "n", "10:01:10"),
        refused("web-1", "n", "10:00:00"),
        replica("web-3"),
        seen_at("10:03:09"),
        name="web-3",
    )

    assert said["decision"] == "Park"
    assert "not before 2026-01-01T10:03:10Z" in said["notes"][0]


def test_without_the_plugin_nothing_is_held_against_a_node():
    plugins = "{multiPoint: {disabled: [{name: NodeTrust}]}}"
    config = f"{HEAD}profiles: [{{schedulerName: py-scheduler, plugins: {plugins}}}]"
    cluster = (node("n"), refused("web-1", "n", "10:00:00"), replica("web-2"))
    said = explain_known(*cluster, name="web-2", config=config)

    assert (said["node"], said["notes"]) == ("n", [])
