"""A later list holds what differs from the store, and nothing else."""

import msgspec
import pytest

from scheduler.kube.decode import ADDED, DELETED, MODIFIED, ObjectChanged, Unreadable
from scheduler.kube.object_store import ObjectStore
from scheduler.kube.relist import Relist
from scheduler.kube.slices import SLICE_BYTES, SLICE_OBJECTS, Slices
from scheduler.kube.watch_observer import SILENT_WATCHES
from scheduler.kube.watched import PERSISTENT_VOLUMES, PODS
from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.meta import ObjectMeta
from scheduler.model.pod import Pod
from scheduler.model.pod_spec import PodSpec
from scheduler.model.storage import PersistentVolume


def a_pod(name, version="1", *, node=""):
    # The names are made anew, as the decoder makes them.
    metadata = ObjectMeta(name=name, namespace="x", uid=f"uid-{name}", resource_version=version)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node))


def listed(found):
    return ObjectChanged(ADDED, found)


def a_store(*objects, watched=PODS):
    facts = []
    store = ObjectStore(watched, facts.append, SILENT_WATCHES)
    for each in objects:
        store.apply(listed(each))
    facts.clear()
    return store, facts


async def test_equal_objects_are_not_held():
    known = [a_pod(f"p{index}") for index in range(100)]
    store, facts = a_store(*known)

    relist = Relist(store)
    for each in known:
        relist.add(listed(a_pod(each.name)))

    assert relist.held == 0
    await relist.apply()
    assert not facts
    assert all(store.objects["x", each.name] is each for each in known)


async def test_another_version_of_an_equal_object_is_taken_over_and_not_held():
    known = a_pod("a", "1")
    store, facts = a_store(known)

    relist = Relist(store)
    relist.add(listed(a_pod("a", "7")))

    assert relist.held == 0
    await relist.apply()
    kept = store.objects["x", "a"]
    assert not facts
    assert (kept.metadata.resource_version, kept.spec) == ("7", known.spec)
    assert kept.spec is known.spec
    assert kept.metadata.labels is known.metadata.labels


async def test_a_new_version_counts_where_we_write_the_object():
    def volume(version):
        return PersistentVolume(metadata=ObjectMeta(name="v", uid="v", resource_version=version))

    store, facts = a_store(volume("1"), watched=PERSISTENT_VOLUMES)

    relist = Relist(store)
    relist.add(listed(volume("2")))
    await relist.apply()

    (fact,) = facts
    assert isinstance(fact, Updated)


async def test_differences_are_sent_at_the_end_additions_first():
    store, facts = a_store(a_pod("gone"), a_pod("same"), a_pod("changed"))

    relist = Relist(store)
    relist.add(listed(a_pod("changed", "5", node="n")))
    relist.add(listed(a_pod("new")))
    relist.add(listed(a_pod("same")))

    assert relist.held == 2
    assert not facts
    await relist.apply()
    kinds = [type(fact) for fact in facts]
    assert kinds == [Updated, Added, Deleted]
    assert (facts[2].old.name, facts[2].seen) == ("gone", False)
    assert store.objects.keys() == {("x", "same"), ("x", "changed"), ("x", "new")}


async def test_an_object_that_is_only_read_in_another_way_is_not_held():
    """After a reload that needs annotations every object differs, and none is new."""
    store, facts = a_store(a_pod("a"), a_pod("b"))
    relist = Relist(store)
    for name in ("a", "b"):
        read = a_pod(name)
        metadata = msgspec.structs.replace(read.metadata, annotations={"x": "y"})
        relist.add(listed(msgspec.structs.replace(read, metadata=metadata)))

    assert relist.held == 0
    assert [type(fact) for fact in facts] == [Updated, Updated]
    assert store.objects["x", "a"].metadata.annotations == {"x": "y"}


@pytest.mark.parametrize("before", ["1", "3"])
async def test_the_last_change_within_a_streamed_list_counts(before):
    store, facts = a_store(a_pod("a", before), a_pod("b"))

    relist = Relist(store)
    relist.add(listed(a_pod("a", "4", node="n")))
    relist.add(ObjectChanged(MODIFIED, a_pod("a", "5")))  # as it was
    relist.add(listed(a_pod("b")))
    relist.add(ObjectChanged(DELETED, a_pod("b")))
    relist.add(listed(a_pod("c")))
    relist.add(ObjectChanged(DELETED, a_pod("c")))

    assert relist.held == 0
    await relist.apply()
    (fact,) = facts
    assert (type(fact), fact.old.name) == (Deleted, "b")


async def test_the_last_good_version_of_an_unreadable_object_stays():
    store, facts = a_store(a_pod("a"), a_pod("b"))

    relist = Relist(store)
    relist.keep(Unreadable(ADDED, ("x", "a"), "9", "for the test"))
    relist.keep(Unreadable(DELETED, ("x", "b"), "9", "for the test"))
    await relist.apply()

    assert store.objects.keys() == {("x", "a")}
    assert len(facts) == 1


def test_a_slice_is_full_by_objects_or_by_bytes():
    slices = Slices()
    assert [slices.is_full(10) for _ in range(2 * SLICE_OBJECTS)].count(True) == 2

    assert not slices.is_full(SLICE_BYTES - 1)
    assert slices.is_full(1)
    assert not slices.is_full(1)
    assert slices.is_full(2 * SLICE_BYTES)
