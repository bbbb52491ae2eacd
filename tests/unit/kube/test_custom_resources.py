"""Custom resources: named by a plugin, watched as they are, read as dictionaries."""

import asyncio

import pytest

from scheduler.kube.decode import ObjectChanged, ObjectDecoder, Unreadable
from scheduler.kube.reflector import Reflector
from scheduler.kube.reflector_timeouts import ReflectorTimeouts
from scheduler.kube.watched import custom, is_known, watched_for
from scheduler.model.fact import Added, Deleted, Listed, Resource, Updated

GAUGES = "gauges.v1beta1.metrics.example.com"


def gauge(name, version="1", load=10, **metadata):
    return {
        "apiVersion": "metrics.example.com/v1beta1",
        "kind": "Gauge",
        "metadata": {"name": name, "uid": name, "resourceVersion": version, **metadata},
        "usage": {"load": load},
    }


def page(*items, version="5"):
    return {"metadata": {"resourceVersion": version}, "items": list(items)}


def test_a_name_contains_the_path_of_its_list():
    assert custom(GAUGES).path == "/apis/metrics.example.com/v1beta1/gauges"


@pytest.mark.parametrize(
    ("need", "known"),
    [
        (GAUGES, True),
        ("Namespace", True),
        ("node.annotations", True),
        ("pod.annotations", True),
        ("node.feelings", False),
        ("gauges", False),
        ("gauges.v1", False),
        ("gauges.metrics.example.com", False),
        ("Gauges.v1.example.com", False),
    ],
)
def test_needs_are_known_or_not(need, known):
    assert is_known(need) is known


def test_what_plugins_need_is_watched_after_pods_and_nodes():
    found = watched_for({GAUGES, "Namespace", "node.annotations"})

    assert [each.resource for each in found] == ["Pod", "FailedPod", "Node", "Namespace", GAUGES]
    assert [each.resource for each in found if each.annotations] == [Resource.NODE, GAUGES]


def test_an_object_is_read_as_it_is():
    decoder = ObjectDecoder(custom(GAUGES))
    line = (
        b'{"type":"ADDED","object":{"kind":"Gauge","metadata":{"name":"a","uid":"u",'
        b'"annotations":{"k":"v"}},"usage":{"load":1,"odd":null}}}'
    )

    event = decoder.event(line)

    assert isinstance(event, ObjectChanged)
    assert event.object.metadata.annotations == {"k": "v"}
    assert event.object.content == {"kind": "Gauge", "usage": {"load": 1, "odd": None}}


def test_an_object_without_readable_metadata_is_reported():
    decoder = ObjectDecoder(custom(GAUGES))

    event = decoder.event(b'{"type":"ADDED","object":{"metadata":{"name":"a","labels":{"k":1}}}}')

    assert isinstance(event, Unreadable)
    assert event.key == ("", "a")
    assert event.problem == "metadata.labels[...]: Expected `str`, got `int`"


async def reflect(client, api, requests):
    """Run a reflector of gauges for some requests; return its facts and its pauses."""
    facts, pauses = [], []

    async def sleep(seconds):
        pauses.append(seconds)
        await asyncio.sleep(0)

    reflector = Reflector(
        client, custom(GAUGES), facts.append, timeouts=ReflectorTimeouts(poll=7.0), sleep=sleep
    )
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(60):
        while len(api.seen) < requests:  # noqa: ASYNC110 - a test
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return facts, pauses


async def test_a_resource_that_cannot_be_watched_is_listed_again(api, client):
    """As metrics.k8s.io: neither streams nor watches, only lists."""
    refuse = api.answers(405, "the server does not allow this method")
    api.plays(
        refuse,
        api.answers(body=page(gauge("a"), gauge("b"))),
        refuse,
        api.answers(body=page(gauge("a", "2", load=20))),
        refuse,
    )

    facts, pauses = await reflect(client, api, 6)

    kinds = [type(fact) for fact in facts]
    assert kinds == [Added, Added, Listed, Updated, Deleted]
    assert facts[3].new.content["usage"] == {"load": 20}
    assert pauses[0] == 7.0


async def test_a_list_without_a_version_is_listed_again_after_a_pause(api, client):
    api.plays(
        api.answers(405, "no"),
        api.answers(body=page(gauge("a", ""), version="")),
        api.answers(body=page(gauge("a", ""), version="")),
    )

    facts, pauses = await reflect(client, api, 4)

    assert [type(fact) for fact in facts] == [Added, Listed]
    assert pauses == [7.0, 7.0]


async def test_a_resource_that_is_not_served_delays_nothing(api, client):
    api.plays(api.answers(404, "not here"))

    facts, _ = await reflect(client, api, 2)

    assert facts == [Listed(GAUGES)]
