"""The parts that columns are made of: right, and no larger than what they hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.errors import StaleView
from scheduler.model.affinity_terms import TermKind
from scheduler.model.host_ports import HostPort
from scheduler.model.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Requirement,
    from_map,
)
from scheduler.model.taints import Taint
from scheduler.snapshot.columns import ClusterColumns, TaintSets
from scheduler.snapshot.count_column import COUNT_MAXIMUM, CountColumn
from scheduler.snapshot.domains import Domains
from scheduler.snapshot.labels import LabelIndex
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.pod_sets import PodSet, PodSetColumns, WeightedPods
from scheduler.testing import make_node, make_pod

ROWS = 150
ROW = st.integers(0, ROWS - 1)
COUNT = st.integers(-3, 3) | st.sampled_from([2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**65])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), ROW, COUNT),
        st.tuples(st.just("add"), ROW, COUNT),
        st.tuples(st.just("move"), ROW, ROW),
        st.tuples(st.just("fill"), st.integers(1, ROWS), st.integers(-1, 2)),
    ),
    max_size=30,
)


@given(STEPS)
def test_a_count_column_counts_as_a_map_does(steps):
    """Sparse or dense, across the change from one to the other, and beyond what int64 holds."""
    count_column, model = CountColumn(), dict.fromkeys(range(ROWS), 0)
    for kind, row, argument in steps:
        match kind:
            case "set":
                count_column[row] = model[row] = argument
            case "add":
                count_column.add(row, argument)
                model[row] += argument
            case "move" if row != argument:
                count_column.move(row, argument)
                model[argument], model[row] = model[row], 0
            case "fill":
                for each in range(row):
                    count_column[each] = model[each] = argument

    exact = list(model.values())
    shown = [min(count, COUNT_MAXIMUM) for count in exact]
    assert [count_column[row] for row in range(ROWS)] == exact
    assert count_column.total == sum(exact)
    for column in (count_column, CountColumn.of(np.array(shown))):
        assert column.dense(ROWS).tolist() == shown
        assert column.where(ROWS).tolist() == [count != 0 for count in exact]
        assert column.nonzero_rows == np.count_nonzero(shown)
        assert bool(column) == any(exact)


def test_arrays_of_a_count_column_are_read_only():
    count_column = CountColumn()
    count_column[3] = 1
    with pytest.raises(ValueError, match="read-only"):
        count_column.dense(5)[0] = 1
    for row in range(100):
        count_column[row] = 1
    with pytest.raises(ValueError, match="read-only"):
        count_column.dense(100)[0] = 2
    count_column[0] = 5
    assert count_column[0] == 5


# Labels.


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement("k", IN, frozenset({"1", "x"})),
        Requirement("k", IN, frozenset({"never seen"})),
        Requirement("k", NOT_IN, frozenset({"1", "never seen"})),
        Requirement("k", EXISTS),
        Requirement("k", DOES_NOT_EXIST),
        Requirement("k", GT, frozenset({"1"})),
        Requirement("k", LT, frozenset({"2"})),
        Requirement("other", EXISTS),
        Requirement("other", NOT_IN, frozenset({"1"})),
    ],
)
def test_a_requirement_over_a_column_is_the_requirement_over_each_node(requirement):
    values = ["1", "2", "x", "", None, "1"]
    nodes = [
        make_node(f"n{row}", labels={} if value is None else {"k": value})
        for row, value in enumerate(values)
    ]
    index = LabelIndex(nodes)

    found = index.where(requirement, len(nodes))

    assert found.tolist() == [requirement.matches(node.metadata.labels) for node in nodes]
    assert index.where(requirement, len(nodes)) is found, "asked twice, answered once"
    with pytest.raises(ValueError, match="read-only"):
        found[0] = True


def test_label_values_of_deleted_nodes_are_dropped():
    columns = ClusterColumns()
    columns.add_node(make_node("n"))
    view = NodeTable(columns)
    view.domains("k")
    for value in range(2000):
        columns.update_node(make_node("n", labels=f"k=v{value}"))
        NodeTable(columns).labelled("k", f"v{value}")

    assert columns.labels.column("k").values < 200
    assert len(columns.labels._masks) <= 1


def test_label_keys_and_requirements_are_kept_in_a_limited_number():
    columns = ClusterColumns()
    columns.add_node(make_node("n"))
    view = NodeTable(columns)
    for key in range(3000):
        view.labelled(f"key-{key}", "x")

    assert not columns.labels._columns
    assert not columns.labels._masks


# Taints.


def test_taint_lists_of_deleted_nodes_are_dropped():
    sets = TaintSets()
    for number in range(1000):
        sets.set(0, (Taint(key=f"k{number}"),))
        assert sets.sets[sets.ids[0]] == (Taint(key=f"k{number}"),)
        sets.remove(0)

    assert sets.sets == [()]


def test_a_taint_list_stays_while_any_row_has_it():
    sets, taints = TaintSets(), (Taint(key="k"),)
    sets.set(0, taints)
    sets.set(1, taints)
    sets.remove(0)
    sets.move(1, 0)

    assert sets.sets[sets.ids[0]] == taints
    sets.remove(0)
    assert sets.sets == [()]


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_row_keeps_its_own_taints_however_nodes_come_and_go(rng):
    columns, taints = ClusterColumns(), {}
    for number in range(300):
        name = f"n{rng.randrange(6)}"
        if name in taints and rng.random() < 0.4:
            columns.remove_node(name)
            del taints[name]
            continue
        taints[name] = f"t{number}"
        node = make_node(name, taints=f"t{number}:NoSchedule")
        columns.update_node(node) if name in columns.rows else columns.add_node(node)

    keys = [columns.taints.sets[number][0].key for number in columns.taints.ids[: len(taints)]]
    assert dict(zip(columns.names, keys, strict=True)) == taints
    assert len(columns.taints.sets) <= 6


# Pods by what matches them.


def test_pod_set_columns_follow_pods_and_are_limited_in_number():
    groups = PodSetColumns()
    web = PodSet(frozenset({"default"}), from_map({"app": "web"}))
    pod = make_pod("a", labels="app=web, tier=x")
    groups.add(3, pod, 1)
    assert groups.column(web, 5).dense(5).tolist() == [0, 0, 0, 1, 0]
    groups.add(1, make_pod("b", labels="app=web"), 1)
    groups.add(1, make_pod("c", labels="app=db"), 1)
    groups.add(1, make_pod("d", labels="app=web", namespace="other"), 1)
    groups.add(1, make_pod("e", labels="app=web", terminating=True), 1)
    assert groups.column(web, 5).dense(5).tolist() == [0, 1, 0, 1, 0]

    for number in range(1000):
        groups.column(PodSet(None, from_map({"x": str(number)})), 5)
    assert len(groups._columns) <= 512
    kept = [len(each.columns) for named in groups._groups.values() for each in named.values()]
    assert max(kept) <= 512
    assert len(list(groups._index.candidates("default", {"x": "999"}))) == 1

    groups.add(3, pod, -1)
    assert groups.column(web, 5).dense(5).tolist() == [0, 1, 0, 0, 0]


def test_pod_set_columns_are_limited_by_what_users_have_written():
    """One pod may name ten thousand namespaces, or say ten thousand terms about one topology."""
    groups = PodSetColumns()
    for number in range(100):
        namespaces = frozenset(f"n-{number}-{each}" for each in range(2000))
        groups.column(PodSet(namespaces, from_map({"x": str(number)})), 5)
        parts = [(PodSet(None, from_map({"x": f"{number}-{each}"})), 1) for each in range(1000)]
        groups.column(WeightedPods(tuple(parts)), 5)

    assert 0 < sum(each.named for each in groups._columns) <= 32_768
    assert groups._names == sum(each.named for each in groups._columns)


def test_a_pod_cannot_be_removed_twice():
    groups = PodSetColumns()
    groups.add(0, make_pod(), 1)
    groups.add(0, make_pod(), -1)

    with pytest.raises(AssertionError, match="removed more often than added"):
        groups.add(0, make_pod(), -1)


# All together.

AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


def add_node_with_pod(columns, number):
    row = columns.add_node(
        make_node(
            f"n{number}",
            allocatable={"cpu": "8", f"example.com/r{number}": "2", "hugepages-1Gi": "0"},
            images={f"image-{number}": "1Mi"},
            labels=f"zone=z{number}",
            taints=f"t{number}:NoSchedule",
        )
    )
    pod = make_pod(
        f"p{number}",
        node=f"n{number}",
        labels=f"app=a{number}",
        requests={"cpu": "1", f"example.com/r{number}": "1", f"example.com/z{number}": "0"},
        host_ports=[number + 1],
        affinity=AFFINITY,
    )
    columns.add_pod(row, pod)
    view = NodeTable(columns)
    view.labelled("zone", f"z{number}")
    view.count(PodSet(None, from_map({"app": f"a{number}"})))
    return pod


def test_nothing_is_kept_of_removed_nodes_and_pods():
    """Resources, images, ports, label groups and terms are dropped with their last user."""
    columns = ClusterColumns()
    for number in range(300):
        pod = add_node_with_pod(columns, number)
        columns.remove_pod(columns.rows[f"n{number}"], pod.uid)
        columns.remove_node(f"n{number}")

    assert len(columns) == len(columns.names) == len(columns.pods) == len(columns.rows) == 0
    assert set(columns.allocatable) == set()
    assert set(columns.requested) <= {"cpu", "memory"}
    assert columns._ports == {}
    assert columns._images == {}
    assert columns.closed == {}
    assert columns.pod_sets._groups == {}
    assert not any(map(len, columns.terms.values()))
    assert not any(columns.taints.sets)


def test_rows_stay_dense():
    columns = ClusterColumns()
    for number in range(10):
        add_node_with_pod(columns, number)
    columns.set_closed(9, "because")
    for number in (0, 4, 8):
        [pod] = columns.pods[columns.rows[f"n{number}"]].values()
        columns.remove_pod(columns.rows[f"n{number}"], pod.uid)
        columns.remove_node(f"n{number}")

    view = NodeTable(columns)
    assert sorted(columns.rows.values()) == list(range(7)) == list(range(len(view)))
    for name, row in columns.rows.items():
        number = name[1:]
        assert view.names[row] == name == view.node(row).name
        assert [pod.name for pod in view.pods_on(row)] == [f"p{number}"]
        assert view.allocatable(f"example.com/r{number}").nonzero()[0].tolist() == [row]
        assert view.requested(f"example.com/r{number}").nonzero()[0].tolist() == [row]
        assert view.labelled("zone", f"z{number}").nonzero()[0].tolist() == [row]
        assert view.image(f"image-{number}")[2].nonzero()[0].tolist() == [row]
        port = HostPort(ip="0.0.0.0", protocol="TCP", port=int(number) + 1)
        assert view.port_conflicts([port]).nonzero()[0].tolist() == [row]
    assert list(view.closed) == [columns.rows["n9"]]


def test_a_node_with_pods_cannot_be_removed():
    columns = ClusterColumns()
    add_node_with_pod(columns, 1)

    with pytest.raises(AssertionError, match="with pods in its row"):
        columns.remove_node("n1")


QUESTIONS = {
    "len": len,
    "names": lambda view: view.names,
    "cluster": lambda view: view.cluster,
    "select": lambda view: view.select(np.array([0])),
    "row_of": lambda view: view.row_of("n1"),
    "named": lambda view: view.named(["n1"]),
    "node": lambda view: view.node(0),
    "pods_on": lambda view: view.pods_on(0),
    "evictable": lambda view: view.potential_victims(np.array([0]), 9),
    "objects": lambda view: view.objects,
    "name_hashes": lambda view: view.name_hashes,
    "unschedulable": lambda view: view.unschedulable,
    "allowed_pods": lambda view: view.allowed_pods,
    "allocatable": lambda view: view.allocatable("cpu"),
    "allocatable of none": lambda view: view.allocatable("none"),
    "labelled": lambda view: view.labelled("zone", "z1"),
    "domains": lambda view: view.domains("zone"),
    "domain_numbers": lambda view: view.domain_numbers("zone"),
    "by_taints": lambda view: view.by_taints(len),
    "untolerated": lambda view: view.untolerated(()),
    "image": lambda view: view.image("image-1"),
    "closed": lambda view: view.closed,
    "pod_count": lambda view: view.pod_count,
    "requested": lambda view: view.requested("cpu"),
    "nonzero_requested": lambda view: view.nonzero_requested("cpu"),
    "port_conflicts": lambda view: view.port_conflicts([]),
    "count": lambda view: view.count(PodSet(None, EVERYTHING)),
    "count_domains": lambda view: view.count_domains(
        "zone", PodSet(None, EVERYTHING), np.ones(1, dtype=np.bool_)
    ),
    "exceeding_skew": lambda view: view.exceeding_skew(
        "zone", PodSet(None, EVERYTHING), np.ones(1, dtype=np.bool_), most=1, needed=1
    ),
    "sum_domains": lambda view: view.sum_domains("zone", PodSet(None, EVERYTHING)),
    "claim_users": lambda view: view.claim_users("default/c"),
    "disks_taken": lambda view: view.disks_taken([]),
    "volume_limit": lambda view: view.volume_limit("driver"),
    "volumes_in_use": lambda view: view.volumes_in_use("driver"),
    "mounting": lambda view: view.mounting(("driver", "volume")),
    "volume_problems": lambda view: view.volume_problems,
    "declaring": lambda view: view.declaring("feature"),
    "rows_of": lambda view: view.rows_of(["n1"]),
    "has_label": lambda view: view.has_label("zone"),
    "has_label with a value": lambda view: view.has_label("zone", "z1"),
    "alike": lambda view: view.alike(["zone"]),
    "labels_position": lambda view: view.labels_position,
    "any_in_domain": lambda view: view.any_in_domain("zone", PodSet(None, EVERYTHING)),
    "any_terms": lambda view: view.any_terms(make_pod(), TermKind.REQUIRED_ANTI_AFFINITY),
    "sum_terms": lambda view: view.sum_terms(make_pod(), TermKind.REQUIRED_ANTI_AFFINITY),
    "changed": lambda view: view.changed,
    "unchanged": lambda view: view.unchanged,
    "cluster_of": lambda view: view.cluster_of(0),
    "each": lambda view: view.each(),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("part", ["whole", "rows", "what-if"])
def test_a_view_answers_until_the_next_fact_and_shows_nothing_that_can_be_written(question, part):
    columns = ClusterColumns()
    pod = add_node_with_pod(columns, 1)
    view = NodeTable(columns)
    if part == "rows":
        view = view.select(np.array([0]))
    elif part == "what-if":
        view = view.each(adding={0: [make_pod("more")]}, removing={0: [pod]})

    answer = QUESTIONS[question](view)
    if isinstance(answer, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            answer[0] = answer[0]

    columns.set_closed(0, "x")
    with pytest.raises(StaleView):
        QUESTIONS[question](view)


# Sums by domain.


def test_sums_by_domain_follow_single_rows_and_are_not_made_anew(monkeypatch):
    columns = ClusterColumns()
    for row in range(6):
        columns.add_node(make_node(f"n{row}", labels=f"zone=z{row % 2}" if row < 5 else ""))
    web = PodSet(None, from_map({"app": "web"}))
    made = []
    counting = Domains.counting
    monkeypatch.setattr(Domains, "counting", lambda *asked: made.append(asked) or counting(*asked))

    def sums():
        view, everywhere = NodeTable(columns), np.ones(6, dtype=np.bool_)
        found = view.sum_domains("zone", web, 2)
        counts = view.count_domains("zone", web, everywhere)
        presence = view.any_in_domain("zone", web)
        assert (2 * counts.here).tolist() == found.tolist()
        assert (found > 0).tolist() == presence.here.tolist()
        assert (counts.total > 0).tolist() == presence.anywhere.tolist()
        return [*found.tolist(), 2 * int(counts.total[0])]

    assert sums() == [0, 0, 0, 0, 0, 0, 0]
    columns.add_pod(0, make_pod("a", labels="app=web"))
    columns.add_pod(5, make_pod("b", labels="app=web"))
    assert sums() == [2, 0, 2, 0, 2, 0, 2]
    columns.add_pod(1, make_pod("c", labels="app=web"))
    columns.add_pod(1, make_pod("d", labels="app=web"))
    columns.remove_pod(0, "uid-default-a")
    assert sums() == [0, 4, 0, 4, 0, 0, 4]
    assert len(made) == 1

    columns.update_node(make_node("n1", labels="zone=z0"))
    assert sums() == [4, 4, 4, 0, 4, 0, 4]
    columns.remove_node("n0")
    view = NodeTable(columns)
    assert view.sum_domains("zone", web).tolist() == [
        {"n5": 0, "n3": 0}.get(name, 2) for name in columns.names
    ]


def test_only_domains_that_cross_a_limit_of_skew_count_as_changed():
    columns = ClusterColumns()
    for row in range(6):
        columns.add_node(make_node(f"n{row}", labels=f"zone=z{row % 3}" if row < 5 else ""))
    web, everywhere = PodSet(None, from_map({"app": "web"})), np.ones(6, dtype=np.bool_)

    def beyond(most=1, needed=3):
        view = NodeTable(columns)
        with view.recording() as reads:
            found = view.exceeding_skew("zone", web, everywhere, most=most, needed=needed)
        counts = view.count_domains("zone", web, everywhere)
        least = counts.least if counts.registered >= needed else 0
        assert found.tolist() == (counts.here - least > most).tolist()
        [log] = [log for log in reads if log.by_domain]
        return found.tolist(), log, log.position

    def add(row, name):
        columns.add_pod(row, make_pod(name, labels="app=web"))

    nowhere, log, begin = beyond()
    add(0, "a")
    assert nowhere == [False] * 6
    assert beyond() == (nowhere, log, begin)
    add(3, "b")
    assert beyond()[0] == [True, False, False, True, False, False]
    assert sorted(log.since(begin)) == [0, 3]
    add(1, "c")
    add(2, "d")
    begin = log.position
    assert beyond()[0] == nowhere
    assert sorted(log.since(begin)) == [0, 3]

    # The emptiest domain counts as having none where domains are missing.
    assert beyond(needed=4)[0] == [True, False, False, True, False, False]
    for most in range(2, 6):
        assert beyond(most)[0] == nowhere
    assert log.abandoned, "limits pile up"
    begin, log = beyond()[2], beyond()[1]
    columns.update_node(make_node("n1", labels="zone=z0"))
    assert beyond()[0] == [True, True, False, True, False, False]
    assert log.abandoned


def test_sums_over_some_nodes_follow_single_rows_too(monkeypatch):
    columns = ClusterColumns()
    for row in range(4):
        columns.add_node(make_node(f"n{row}", labels=f"zone=z{row % 2}"))
    web, some = PodSet(None, from_map({"app": "web"})), np.array([True, True, False, False])
    made = []
    counting = Domains.counting
    monkeypatch.setattr(Domains, "counting", lambda *asked: made.append(asked) or counting(*asked))

    def sums():
        view = NodeTable(columns)
        found = view.sum_domains("zone", web, included=some)
        counts = view.count_domains("zone", web, some)
        beyond = view.exceeding_skew("zone", web, some, most=1, needed=1)
        assert counts.here.tolist() == found.tolist()
        assert (counts.here - counts.least > 1).tolist() == beyond.tolist()
        return found.tolist()

    assert sums() == [0, 0, 0, 0]
    for row, name in enumerate("abcd"):
        columns.add_pod(row, make_pod(name, labels="app=web"))
    columns.add_pod(0, make_pod("e", labels="app=web"))
    columns.add_pod(0, make_pod("f", labels="app=web"))
    assert sums() == [3, 1, 3, 1]
    assert len(made) == 1
    some = np.array([True, True, True, False])
    assert sums() == [4, 1, 4, 1]
    assert len(made) == 2


def test_whether_any_node_has_a_label_or_its_value():
    columns = ClusterColumns()
    columns.add_node(make_node("n1", labels={"zone": ""}))
    columns.add_node(make_node("n2", labels={"zone": "z1"}))
    view = NodeTable(columns)

    asked = [("zone",), ("zone", ""), ("zone", "z1"), ("zone", "z2"), ("rack",), ("rack", "")]
    assert [view.has_label(*each) for each in asked] == [True, True, True, False, False, False]
