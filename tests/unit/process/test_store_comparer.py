"""A store is compared with pages of one moment while the world moves on."""

import json
import random

import pytest

from scheduler.errors import Forbidden, Gone, Throttled, Unreachable
from scheduler.kube.decode import ADDED, DELETED, ObjectChanged, ObjectDecoder
from scheduler.kube.reflector import Reflector
from scheduler.kube.retry import RetrySettings
from scheduler.kube.watched import PODS
from scheduler.process.store_comparer import PAGE_OBJECTS, SUSPECTS_MAXIMUM, StoreComparer

METADATA_ONLY, WHOLE = "metadata", "whole"


def a_pod(name, version=1, *, node="", uid="", labels=None):
    metadata = {
        "name": name,
        "namespace": "x",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels or {},
    }
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": []}}


class World:
    """An API server's pods, which it lists by pages of one moment, and a reflector of them."""

    def __init__(self):
        self.there = {}
        self.facts = []
        self.reflector = Reflector(None, PODS, self.facts.append)
        self.requests = []
        self.before_page = {}  # by the number of the request
        self.while_settling = lambda: None
        self._moments = {}
        self._decoder = ObjectDecoder(PODS)
        self.comparer = StoreComparer(
            Listing(self, METADATA_ONLY),
            Listing(self, WHOLE),
            self.reflector,
            retries=RetrySettings(
                tries_maximum=3,
                throttled_seconds_maximum=60.0,
                sleep=self.no_sleep,
                rng=random.Random(1),
            ),
            sleep=self.settle,
        )

    async def no_sleep(self, _seconds):
        pass

    async def settle(self, _seconds):
        self.while_settling()

    def put(self, document, *, watched=True):
        self.there[document["metadata"]["name"]] = document
        if watched:
            self.deliver(document)

    def deliver(self, document):
        found = self._decoder.item(json.dumps(document).encode())
        self.reflector._objects.apply(ObjectChanged(ADDED, found))

    def remove(self, name, *, watched=True):
        document = self.there.pop(name)
        if watched:
            found = self._decoder.item(json.dumps(document).encode())
            self.reflector._objects.apply(ObjectChanged(DELETED, found))

    def fill(self, count):
        for index in range(count):
            self.put(a_pod(f"p{index:05}"))

    def page(self, what, params):
        number = len(self.requests)
        self.requests.append((what, params))
        self.before_page.get(number, lambda: None)()
        token = params.get("continue")
        items = (
            self._moments.pop(token) if token else [self.there[key] for key in sorted(self.there)]
        )
        limit = int(params["limit"])
        page, rest = items[:limit], items[limit:]
        more = ""
        if rest:
            more = f"token-{number}"
            self._moments[more] = rest
        if what == METADATA_ONLY:
            page = [{"metadata": each["metadata"]} for each in page]
        return json.dumps({"metadata": {"continue": more}, "items": page}).encode()

    async def compare(self):
        corrected = {}
        await self.comparer.compare(corrected)
        return {key[1]: kind for key, kind in corrected.items()}

    def stored(self):
        return {
            each.metadata.name: each.metadata.resource_version
            for each in self.reflector.store.values()
        }

    @property
    def lists(self):
        return [what for what, params in self.requests if "continue" not in params]


class Listing:
    """One of the two clients of the comparer."""

    def __init__(self, world, what):
        self.world, self.what = world, what

    async def get(self, path, params):
        assert path == PODS.path
        return self.world.page(self.what, dict(params))


@pytest.fixture
def world():
    return World()


async def test_an_equal_store_is_compared_by_metadata_alone_in_pages(world):
    world.fill(2 * PAGE_OBJECTS + 1)

    assert not await world.compare()

    assert [what for what, _ in world.requests] == [METADATA_ONLY] * 3
    assert {params["limit"] for _, params in world.requests} == {str(PAGE_OBJECTS)}
    assert {params["fieldSelector"] for _, params in world.requests} == {PODS.field_selector}


async def test_what_changes_between_two_pages_is_no_drift_and_costs_no_second_list(world):
    """All pages show the moment of the first; the store follows the watch."""
    world.fill(3 * PAGE_OBJECTS)

    def move():
        world.put(a_pod("p00000", 1000, node="n"))  # its page was compared already
        world.put(a_pod("p00250", 1001, node="n"))  # its page comes as it was before
        world.remove("p00260")
        world.remove("p00270")
        world.put(a_pod("p00270", 1002, uid="another"))
        world.put(a_pod("new", 1003))

    world.before_page[1] = move

    assert not await world.compare()
    assert world.lists == [METADATA_ONLY]


async def test_what_the_watch_delivers_in_time_is_no_drift_and_costs_no_second_list(world):
    world.fill(3)
    changed, new = a_pod("p00000", 7, node="n"), a_pod("new", 8)
    world.put(changed, watched=False)
    world.put(new, watched=False)
    world.there.pop("p00001")

    def deliver():
        world.deliver(changed)
        world.deliver(new)
        world.there["p00001"] = a_pod("p00001")
        world.remove("p00001")

    world.while_settling = deliver

    assert not await world.compare()
    assert world.lists == [METADATA_ONLY]


async def test_what_the_watch_never_delivers_is_corrected_from_whole_objects(world):
    world.fill(2 * PAGE_OBJECTS)
    world.put(a_pod("p00150", 9, node="n"), watched=False)
    world.put(a_pod("p00151", 10, uid="another"), watched=False)
    world.put(a_pod("new", 11, node="m"), watched=False)
    world.remove("p00003", watched=False)

    found = await world.compare()

    assert found == {
        "p00150": "outdated",
        "p00151": "outdated",
        "new": "missing",
        "p00003": "redundant",
    }
    assert world.lists == [METADATA_ONLY, WHOLE]
    assert world.reflector.store["x", "p00150"].node_name == "n"
    assert world.reflector.store["x", "p00151"].metadata.uid == "another"
    assert world.reflector.store["x", "new"].node_name == "m"
    assert ("x", "p00003") not in world.reflector.store
    assert not await world.compare()


async def test_an_object_that_keeps_changing_is_no_drift(world):
    world.fill(1)
    world.put(a_pod("p00000", 7, node="n"), watched=False)
    world.while_settling = lambda: world.put(a_pod("p00000", 8, node="m"), watched=False)

    assert not await world.compare()


async def test_what_comes_during_the_second_list_is_no_drift(world):
    world.fill(PAGE_OBJECTS + 5)
    changed = a_pod("p00104", 7, node="n")
    world.put(changed, watched=False)
    world.put(a_pod("z-new", 8), watched=False)
    world.remove("p00001", watched=False)
    late = {"p00001": a_pod("p00001")}

    def deliver():
        world.deliver(changed)
        world.deliver(a_pod("z-new", 8))
        world.there |= late
        world.remove("p00001")

    world.before_page[3] = deliver  # the second page of the second list

    assert not await world.compare()
    assert world.lists == [METADATA_ONLY, WHOLE]


async def test_a_version_in_which_nothing_that_we_read_differs_is_no_drift(world):
    world.fill(1)
    world.put(a_pod("p00000", 7), watched=False)

    assert not await world.compare()
    assert world.stored() == {"p00000": "1"}


async def test_a_list_that_expires_begins_anew(world):
    world.fill(2 * PAGE_OBJECTS)
    world.remove("p00003", watched=False)
    world.before_page[1] = raises(Gone("the continue token is too old", status=410))
    world.before_page[5] = raises(Gone("the continue token is too old", status=410))

    assert await world.compare() == {"p00003": "redundant"}
    assert world.lists == [METADATA_ONLY, METADATA_ONLY, WHOLE, WHOLE]


async def test_a_list_that_expires_again_is_given_up(world):
    world.fill(2 * PAGE_OBJECTS)
    expired = raises(Gone("the continue token is too old", status=410))
    world.before_page |= {1: expired, 3: expired}

    with pytest.raises(Gone):
        await world.compare()


async def test_a_page_without_an_answer_is_requested_again(world):
    world.fill(3 * PAGE_OBJECTS)
    lost, throttled = raises(Unreachable("no answer")), raises(Throttled("later"))
    world.before_page |= {1: lost, 2: throttled, 3: lost}

    assert not await world.compare()
    assert len(world.requests) == 6
    assert len(world.lists) == 1


async def test_what_was_corrected_before_an_error_is_known(world):
    world.fill(2 * PAGE_OBJECTS)
    world.put(a_pod("p00001", 7, node="n"), watched=False)
    world.before_page[3] = raises(Forbidden("no more"))
    corrected = {}

    with pytest.raises(Forbidden):
        await world.comparer.compare(corrected)

    assert corrected == {("x", "p00001"): "outdated"}


async def test_of_very_many_differences_some_are_left_to_the_next_comparison(world):
    for index in range(SUSPECTS_MAXIMUM + 5):
        world.put(a_pod(f"p{index:05}"), watched=False)

    assert len(await world.compare()) == SUSPECTS_MAXIMUM
    assert len(await world.compare()) == 5
    assert not await world.compare()


def raises(error):
    def fail():
        raise error

    return fail
