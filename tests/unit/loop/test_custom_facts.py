"""A custom resource that a plugin needs: readable through the table, and able to wake pods."""

from types import SimpleNamespace

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.framework.cluster_event import Action, ClusterEvent
from scheduler.loop.fact_handlers import FactHandlers
from scheduler.model.fact import Added, Deleted, Updated
from scheduler.model.meta import ObjectMeta
from scheduler.model.objects import CustomObject

GAUGES = "gauges.v1.example.com"


def gauge(load):
    return CustomObject(metadata=ObjectMeta(name="n1", uid="u"), content={"load": load})


def test_custom_objects_are_cached_and_wake_the_queue():
    noted = []
    cache = ClusterCache()
    queue = SimpleNamespace(requeue_on=lambda change, _now: noted.append(change))
    handlers = FactHandlers(
        cache=cache,
        queue=queue,
        pending=SimpleNamespace(),
        preemptors=SimpleNamespace(),
        other_schedulers=SimpleNamespace(),
        binding=SimpleNamespace(),
        failures=SimpleNamespace(),
        pod_entries_maximum=0,
    )

    handlers.apply(Added(GAUGES, gauge(1)), 0.0)
    assert cache.view().objects.custom(GAUGES)["n1"].content == {"load": 1}
    handlers.apply(Updated(GAUGES, gauge(1), gauge(2)), 0.0)
    assert cache.view().objects.custom(GAUGES)["n1"].content == {"load": 2}
    assert not cache.view().objects.custom(GAUGES, "default")
    handlers.apply(Deleted(GAUGES, gauge(2)), 0.0)
    assert not cache.view().objects.custom(GAUGES)

    assert [change.event for change in noted] == [
        ClusterEvent(GAUGES, action) for action in (Action.ADD, Action.UPDATE, Action.DELETE)
    ]
    assert noted[1].old.content == {"load": 1}
    assert ClusterEvent(GAUGES, Action.ADD | Action.UPDATE).covers(noted[1].event)
