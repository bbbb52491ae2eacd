"""What is written so that volumes will be there, and how that is waited for."""

import pytest

from scheduler.config.plugin_args import VolumeBindingArgs
from scheduler.framework.effects import Patch, WaitUntil
from scheduler.framework.rejection import Failure
from scheduler.plugins import VolumeBinding
from scheduler.snapshot.node_table import NodeTable
from scheduler.testing import make_pod
from tests.unit.plugins.binding_volumes import (
    FIND,
    HERE,
    MADE,
    MIGRATED,
    MOUNTING,
    NODES,
    PLUGIN,
    ZONE,
)
from tests.unit.plugins.plugin_calls import OK, UAU, codes
from tests.unit.plugins.storing import (
    RESOURCES,
    claim,
    csi_node,
    stored,
    stored_columns,
    using,
    volume,
)


def test_nothing_is_done_where_all_is_bound():
    nodes = stored(NODES, (), [claim("data", volume="pv"), volume("pv")])

    assert PLUGIN.reserve(MOUNTING, "a", nodes) == ()
    assert list(PLUGIN.pre_bind(MOUNTING, "a", nodes)) == []
    assert list(PLUGIN.pre_bind(make_pod(), "a", nodes)) == []


class Binding:
    """A pod on its way to node b, its assumptions made."""

    def __init__(self, *things, pod=MOUNTING, plugin=PLUGIN):
        self.columns = stored_columns(NODES, (), things)
        for each in plugin.reserve(pod, "b", NodeTable(self.columns)):
            assert self.columns.objects.assume(each.resource, each.item)
        effects = list(plugin.pre_bind(pod, "b", NodeTable(self.columns)))
        self.patches = [each for each in effects if isinstance(each, Patch)]
        (self.wait,) = (each for each in effects if isinstance(each, WaitUntil))
        assert effects[-1] is self.wait

    def show(self, *items):
        for item in items:
            self.columns.objects.put(RESOURCES[type(item)], item)

    def forget(self, item):
        self.columns.objects.drop(RESOURCES[type(item)], item)

    @property
    def answer(self):
        return self.wait.condition(NodeTable(self.columns))


SECOND = {"resourceVersion": "2"}


def static(plugin=PLUGIN, **pv):
    return Binding(
        HERE, claim("data", of="here"), volume("pv", of="here", node="b", **pv), plugin=plugin
    )


def dynamic(**wish):
    return Binding(MADE, claim("data", of="made", **wish))


def test_the_claim_is_written_into_the_volume():
    binding = static()

    assert [(each.path, each.body, each.undo) for each in binding.patches] == [
        (
            "/api/v1/persistentvolumes/pv",
            {
                "metadata": {
                    "resourceVersion": "1",
                    "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
                },
                "spec": {
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "apiVersion": "v1",
                        "namespace": "default",
                        "name": "data",
                        "uid": "uid-default-data",
                        "resourceVersion": "1",
                    }
                },
            },
            None,
        )
    ]


def test_a_volume_that_a_person_meant_for_the_claim_is_not_said_to_be_bound_by_us():
    (patch,) = static(claimed="default/data").patches

    assert patch.body["metadata"]["annotations"] == {}
    assert patch.body["spec"]["claimRef"]["uid"] == "uid-default-data"


def test_a_volume_that_says_so_already_is_not_written():
    assert static(claimed="default/data", uid="uid-default-data").patches == []


def test_the_node_is_written_into_the_claim():
    binding = dynamic()

    assert [(each.path, each.body, each.undo) for each in binding.patches] == [
        (
            "/api/v1/namespaces/default/persistentvolumeclaims/data",
            {
                "metadata": {
                    "resourceVersion": "1",
                    "annotations": {"volume.kubernetes.io/selected-node": "b"},
                }
            },
            None,
        )
    ]
    assert dynamic(on="b").patches == []


def test_the_wait_is_as_long_as_configured():
    assert static().wait.timeout_seconds == 600
    short = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=3))
    assert static(short).wait.timeout_seconds == 3


BOUND_VOLUME = volume(
    "pv", of="here", node="b", claimed="default/data", uid="uid-default-data", metadata=SECOND
)


BOUND_CLAIM = claim(
    "data",
    of="here",
    volume="pv",
    metadata=SECOND | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
)


def test_a_volume_that_exists_is_waited_for():
    binding = static()
    assert binding.answer is False  # no event yet: the assumption does not count

    binding.show(BOUND_VOLUME)
    assert binding.answer is False
    binding.show(claim("data", of="here", volume="pv", bound=False, metadata=SECOND))
    assert binding.answer is False
    binding.show(BOUND_CLAIM)
    assert binding.answer is True


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ([volume("pv", of="here", node="b", metadata=SECOND)], 'ClaimRef got reset for pv "pv"'),
        (
            [volume("pv", of="here", node="b", claimed="default/data", metadata=SECOND)],
            'ClaimRef got reset for pv "pv"',
        ),
        (
            [volume("pv", node="a", claimed="default/data", uid="u", metadata=SECOND)],
            'pv "pv" node affinity doesn\'t match node "b": no matching NodeSelectorTerms',
        ),
    ],
    ids=["no claim", "no UID", "moved"],
)
def test_waiting_ends_if_a_volume_goes_elsewhere(seen, why):
    binding = static()
    binding.show(*seen)

    assert binding.answer == f"binding volumes: {why}"


def test_what_is_gone_is_given_up():
    binding = static()
    binding.show(BOUND_VOLUME)
    binding.forget(claim("data"))
    assert (
        binding.answer
        == 'binding volumes: failed to check binding: persistentvolumeclaim "data" not found'
    )
    binding.forget(BOUND_VOLUME)
    assert (
        binding.answer
        == 'binding volumes: failed to check binding: persistentvolume "pv" not found'
    )
    made = dynamic()
    made.forget(claim("data"))
    assert made.answer == (
        'binding volumes: failed to check provisioning pvc: persistentvolumeclaim "data" not found'
    )


def written(node="b", version="2", **more):
    annotations = {"volume.kubernetes.io/selected-node": node} if node else {"other": "x"}
    if more.get("done"):
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    return claim(
        "data",
        of="made",
        volume=more.get("volume", ""),
        metadata={"resourceVersion": version, "annotations": annotations},
    )


def test_a_volume_that_is_made_is_waited_for():
    binding = dynamic()
    assert binding.answer is False

    binding.show(written())
    assert binding.answer is False
    binding.show(written(volume="new", done=True))
    assert binding.answer is False  # no event has shown the volume yet
    binding.show(volume("new", of="made", within={ZONE: "z2"}))
    assert binding.answer is True


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ([written(node="")], 'provisioning failed for PVC "data"'),
        ([written(node="a")], 'provisioning failed for PVC "data"'),
        (
            [claim("data", of="made", metadata=SECOND | {"annotations": {}})],
            'selectedNode annotation reset for PVC "data"',
        ),
        (
            [written(volume="new"), volume("new", node="a")],
            'pv "new" node affinity doesn\'t match node "b": no matching NodeSelectorTerms',
        ),
        (
            [
                csi_node("b", **MIGRATED),
                written(volume="new"),
                volume("new", azureDisk={"diskURI": "x", "kind": "Shared"}),
            ],
            (
                "failed to translate pv to csi: could not translate pv:"
                " kind(Shared) is not supported in csi migration"
            ),
        ),
    ],
)
def test_waiting_ends_if_provisioning_fails(seen, why):
    binding = dynamic()
    binding.show(*seen)

    assert binding.answer == f"binding volumes: {why}"


def test_a_node_that_is_gone_is_given_up():
    binding = dynamic()
    binding.columns.remove_node("b")

    assert 'failed to get node "b"' in binding.answer


def test_the_next_pod_sees_what_was_assumed():
    binding = static()
    other = make_pod("other", volumes=using("more"))
    binding.show(claim("more", of="here"))

    assert codes(PLUGIN, other, NodeTable(binding.columns)) == [UAU] * 3
    shared = dynamic()
    assert codes(PLUGIN, MOUNTING, NodeTable(shared.columns)) == [UAU, OK, UAU]


def test_what_cannot_be_done_any_more_ends_the_wait_at_once():
    """A fact may come in between the decision and its execution."""
    nodes = stored(NODES, (), [HERE, claim("data", of="here")])
    (wait,) = PLUGIN.pre_bind(MOUNTING, "b", nodes)

    assert wait.condition(nodes) == f"binding volumes: {FIND}"
    failed = PLUGIN.reserve(MOUNTING, "b", nodes)
    assert isinstance(failed, Failure)
    assert failed.text == FIND
    (wait,) = PLUGIN.pre_bind(MOUNTING, "b", stored(NODES))
    assert wait.condition(nodes) == 'binding volumes: persistentvolumeclaim "data" not found'
