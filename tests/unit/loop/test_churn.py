"""Pods and nodes come and go, each unlike any other: every table is back at its start.

The tables are found, not listed: all that can be reached from the loop or from a module. So a
table that is added later is judged as well.
"""

import functools
import gc
import sys
import tracemalloc
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from scheduler.cache.cluster_cache import ClusterCache
from scheduler.framework import templates
from scheduler.kube.decode import ObjectChanged, ObjectDecoder
from scheduler.kube.object_store import ObjectStore
from scheduler.kube.watch_observer import SILENT_WATCHES
from scheduler.kube.watched import NODES, PODS
from scheduler.model import quantity
from scheduler.model.fact import Added, Deleted, Fact, Resource
from scheduler.model.node import Node
from scheduler.model.objects import Namespace
from scheduler.model.pod import Pod
from scheduler.observe.metrics import Counts, Distributions
from scheduler.snapshot import pod_sets
from scheduler.testing import make_node, make_pod
from scheduler.testing.builders import make_object
from scheduler.testing.clock import in_virtual_time
from scheduler.testing.documents import document_of, pod_path
from scheduler.testing.harness import Harness

BOUNDED = {
    "._history._entries": 5000,  # what happened to pods is of interest after they are gone
    "._templates._seen": templates._SEEN_MAXIMUM,
    ".pod_sets._columns": pod_sets._COLUMNS_KEPT,
    # The sums of those columns: here each is about one topology key.
    ".totals._known": pod_sets._COLUMNS_KEPT,
    # Numbers are compacted once there are many more than rows.
    ".taints.sets": 128,
    ".taints._numbers": 128,
    ".labels._columns[].numbers": 8 * 128,
    "scheduler.model.quantity._parse_kept": quantity._KEPT,
}
"""Tables that keep something of what is gone, and how many entries at most."""
# Answers about templates are bounded in bytes (tests/unit/framework).
WITHIN = (*BOUNDED, "._templates.", ".pod_sets._index", ".pod_sets._scoped")
"""What these tables are part of, or refer to."""
SERIES_MAXIMUM = 200
WATCHING = (Resource.POD, Resource.FAILED_POD, Resource.NODE, Resource.NAMESPACE)


def terms(selector: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an affinity and an anti-affinity, preferred and required ones."""
    term = {"labelSelector": selector, "topologyKey": key, "namespaceSelector": selector}
    preferred = {"weight": 3, "podAffinityTerm": term}
    return {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": selector["matchExpressions"]}}
            ]
        },
    }


def unlike_any(number: int, **more: Any) -> Any:
    """Return a pod in which everything that users write is new."""
    name = f"p{number}"
    selector = {
        "matchLabels": {f"app-{number}": name},
        "matchExpressions": [{"key": f"tier-{number}", "operator": "In", "values": [name, "x"]}],
    }
    constraint = {
        "maxSkew": 1,
        "topologyKey": f"rack-{number % 7}",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }
    container = {
        "name": f"c-{number}",
        "image": f"registry.example/{name}:v{number}",
        "resources": {
            "requests": {"cpu": f"{number % 50 + 1}m", f"example.com/r{number}": "0"},
        },
        "ports": [{"hostPort": 1000 + number, "hostIP": f"10.0.0.{number % 200}"}],
    }
    return make_pod(
        name,
        namespace=f"team-{number}",
        labels={f"app-{number}": name},
        tolerations=f"key-{number}=v:NoSchedule",
        priority=number % 5,
        containers=[container],
        affinity=terms(selector, f"zone-{number % 7}"),
        topology_spread_constraints=[constraint],
        metadata={"ownerReferences": [{"kind": "Job", "name": name, "uid": name}]},
        **more,
    )


async def churn(cluster: Harness, numbers: range) -> None:
    """Create pods and nodes in five ways, let them be decided about, and delete them."""
    for begin in numbers[::25]:
        batch = range(begin, min(begin + 25, numbers.stop))
        for number in batch[::5]:
            cluster.create(
                make_node(
                    f"n{number}",
                    labels={f"l-{number}": "v", "zone-1": f"z{number}"},
                    taints=f"t-{number}=v:NoSchedule",
                    images={f"registry.example/p{number}:v": 10},
                )
            )
            cluster.create(
                make_object(Namespace, f"team-{number}", namespace="", labels={f"l{number}": "v"})
            )
        pods = [
            unlike_any(
                number,
                **(
                    {},
                    {"node": "lasting"},
                    {"node": f"never-{number}"},
                    {"node_selector": f"nowhere-{number}=x"},
                    {"scheduler": f"other-{number}", "nominated": "lasting"},
                )[number % 5],
            )
            for number in batch
        ]
        cluster.create(*pods)
        await cluster.settle(3)
        for pod in pods:
            cluster.api.remove(pod_path(pod))
        for number in batch[::5]:
            cluster.api.remove(f"/api/v1/nodes/n{number}")
            cluster.api.remove(f"/api/v1/namespaces/team-{number}")
        await cluster.settle(3)
        cluster.api.requests.clear()
        cluster.api.bound.clear()
        cluster.recorder.events.clear()


def tables(cluster: Harness) -> Counter[str]:
    """Return how many entries each table has, by the path on which it is reached."""
    gc.collect()
    found: Counter[str] = Counter()
    seen: set[int] = set()
    # Breadth first and in order: each table is found on the shortest path, the same one each time.
    waiting = deque([("cache", cluster.core.cache), ("core", cluster.core)])
    for name, module in sys.modules.items():
        if name.startswith("scheduler.") and not name.startswith("scheduler.testing"):
            waiting += [(f"{name}.{key}", value) for key, value in vars(module).items()]
    while waiting:
        path, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        size, inner = look_into(value)
        if size:
            found[path] += size
        waiting += [(f"{path}{step}", each) for step, each in inner]
    return found


def look_into(value: Any) -> tuple[int, Iterator[tuple[str, Any]]]:
    """Return how many entries *value* has, and what can be reached from it, each with its step."""
    if isinstance(value, (Counts, Distributions)):
        # A series begins when it is first used, and some calls are timed by chance.
        assert len(value) < SERIES_MAXIMUM, "users make up the value of a label"
        return 0, iter(())
    if isinstance(value, functools._lru_cache_wrapper):
        return value.cache_info().currsize, iter(())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return len(value), (("[]", each) for each in list(value))
    if isinstance(value, (dict, WeakValueDictionary, WeakKeyDictionary)):
        return len(value), (("[]", each) for pair in list(value.items()) for each in pair)
    module = type(value).__module__
    if not module.startswith("scheduler.") or module.startswith("scheduler.testing"):
        return 0, iter(())
    names = {
        name
        for kind in type(value).__mro__
        if kind.__module__.startswith("scheduler.")
        for listed in ("__slots__", "__struct_fields__")
        for name in vars(kind).get(listed, ())
    }
    names |= vars(value).keys() if hasattr(value, "__dict__") else set()
    return 0, ((f".{name}", getattr(value, name)) for name in sorted(names) if hasattr(value, name))


def grown(before: Counter[str], after: Counter[str]) -> dict[str, tuple[int, int]]:
    """Return the tables that have more entries than *before*, and no bound of their own."""
    for end, most in BOUNDED.items():
        assert all(size <= most for path, size in after.items() if path.endswith(end)), end
    return {
        path: (before[path], size)
        for path, size in after.items()
        if size > before[path] and not any(end in path for end in WITHIN)
    }


@in_virtual_time
async def test_every_table_is_back_at_its_start():
    async with Harness(watching=WATCHING) as cluster:
        cluster.create(make_node("lasting", labels={"zone-1": "z"}))
        await churn(cluster, range(50))
        before = tables(cluster)
        await churn(cluster, range(50, 250))

        assert cluster.attempts("scheduled") >= 50
        assert grown(before, tables(cluster)) == {}


@in_virtual_time
async def test_a_table_that_keeps_what_is_gone_is_found():
    async with Harness(watching=WATCHING) as cluster:
        before = tables(cluster)
        cluster.create(*(unlike_any(number, node="lasting") for number in range(10)))
        await cluster.settle()

        assert {"cache._pods", "cache._orphaned"} <= grown(before, tables(cluster)).keys()


def test_pods_that_are_gone_leave_no_bytes():
    """The same for the whole heap, from the line of a watch to the columns."""
    for number in range(quantity._KEPT):
        quantity.nanos(f"{number}m")
    cache = ClusterCache()
    stores = {}
    for watched in (PODS, NODES):
        stores[watched.kind] = (
            ObjectDecoder(watched),
            ObjectStore(watched, lambda fact: receive(cache, fact), SILENT_WATCHES),
        )

    def send(kind: str, item: Any) -> None:
        decoder, store = stores[type(item)]
        line = msgspec.json.encode({"type": kind, "object": document_of(item)})
        event = decoder.event(line)
        assert isinstance(event, ObjectChanged)
        store.apply(event)

    def churned(numbers: range) -> None:
        for number in numbers:
            items = (make_node(f"n{number}"), unlike_any(number, node=f"n{number}"))
            for item in items:
                send("ADDED", item)
            for item in reversed(items):
                send("DELETED", item)

    churned(range(100))
    gc.collect()
    tracemalloc.start()
    grown = []
    for begin in range(100, 700, 150):
        before, _ = tracemalloc.get_traced_memory()
        churned(range(begin, begin + 150))
        gc.collect()
        grown.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()

    assert cache.sizes() == {"nodes": 0, "pods": 0, "assumed_pods": 0}
    # A pod like these takes some 15 KB while it is there. What it leaves, every pod leaves; but
    # now and then a dictionary is laid out anew, and a large one if other tests have filled it.
    assert min(grown) / 150 < 100


def receive(cache: ClusterCache, fact: Fact) -> None:
    """Apply *fact* as the loop does."""
    match fact:
        case Added(new=Node() as node):
            cache.add_node(node)
        case Added(new=Pod() as pod):
            cache.add_pod(pod)
        case Deleted(old=Pod() as pod):
            cache.remove_pod(pod.uid)
        case Deleted(old=Node() as node):
            cache.remove_node(node.name)
