"""The parts of a run that need no control plane: answers, bodies, progress, options, trees."""

import asyncio
import io
import json

import msgspec
import pytest

from benchmarks import null_scheduler, throughput, trees
from benchmarks.bound_pods import BoundPods
from benchmarks.decision import decisions, kept_templates, measure
from benchmarks.fast_client import parse_answer
from benchmarks.kinds import KINDS, MEASURED, PLAIN, PodMaker, cluster, decisions_possible
from benchmarks.null_plan import Answer, Plan, read_plan
from benchmarks.null_scheduler import (
    Meta,
    Pod,
    _Event,
    _Spec,
    binding_body,
    condition_body,
    event_body,
    target_body,
)
from benchmarks.progress import Progress
from benchmarks.schedulers import command_scheduler
from scheduler.kube.binding import binding_body as our_binding_body
from scheduler.kube.client import CONNECTIONS_DEFAULT
from scheduler.kube.event_recorder import RecorderSettings
from scheduler.kube.event_series import Series
from scheduler.kube.events import failed_scheduling, scheduled
from scheduler.kube.pod_status import target_patch
from scheduler.testing import make_pod

OK = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 2\r\n\r\n{}", b"{}"),
        (OK + b"Content-Length: 0\r\n\r\n", b""),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n",
            b"abc0123456789",
        ),
    ],
)
def test_an_answer_is_complete_only_with_its_last_byte(answer, body):
    assert parse_answer(answer) == (201, body)
    for length in range(len(answer)):
        assert parse_answer(answer[:length]) is None


def shape(body):
    """Return the keys of JSON, all the way down."""
    return json.loads(body, object_hook=lambda found: dict(sorted(found.items())))


def keys(value):
    if isinstance(value, dict):
        return {key: keys(each) for key, each in value.items()}
    return [keys(each) for each in value] if isinstance(value, list) else None


POD = Pod(Meta("a", "default", "uid-default-a", "1"), _Spec("null-scheduler"))
OURS = make_pod("a")
NOW = "2026-01-01T00:00:00Z"


def test_the_null_scheduler_writes_what_we_write():
    """The same fields, so that the API server has the same work."""
    bound = Series(scheduled(OURS, "n1"), "host", 1).create_body()
    failed = Series(failed_scheduling(OURS, "why"), "host", 1).create_body()

    assert shape(binding_body(POD, "n1")) == shape(our_binding_body(OURS, "n1")) | {
        "metadata": {"name": "a", "namespace": "default", "uid": "uid-default-a"}
    }
    assert keys(shape(event_body(POD, "Scheduled", "Binding", "note"))) == keys(shape(bound))
    assert keys(shape(event_body(POD, "FailedScheduling", "x", "y"))) == keys(shape(failed))
    assert keys(shape(target_body(POD))) == keys(shape(target_patch(OURS, "us", NOW)))
    assert shape(condition_body(POD, "n1"))["status"]["nominatedNodeName"] == "n1"
    assert "nominatedNodeName" not in shape(condition_body(POD, ""))["status"]


def test_the_null_scheduler_has_as_many_requests_under_way():
    assert null_scheduler.CONNECTIONS == CONNECTIONS_DEFAULT
    assert RecorderSettings().workers == null_scheduler.EVENT_WRITERS


def test_a_plan_survives_its_file_and_answers_by_number(tmp_path):
    plan = Plan({"node": ["n0", "n1", "n2"]}, {"measured": Answer("node", 2, victims=3)})
    plan.write(tmp_path / "plan.json")
    found = read_plan(tmp_path / "plan.json")

    assert found == plan
    assert [found.answer(f"measured-{number:06}")[0] for number in range(4)] == [
        "n2",
        "n0",
        "n1",
        "n2",
    ]


class BrokenWatches:
    """Ends its first watch with an ERROR, its second one silently, as an API server may."""

    def __init__(self):
        self.lines = [
            [b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}', EXPIRED],
            [],
            [
                b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}',
                b'{"type":"DELETED","object":{"metadata":{"name":"c"}}}',
                b'{"type":"MODIFIED","object":{"metadata":{"name":"b"}}}',
            ],
        ]

    async def watch(self, path):
        assert path == "/api/v1/namespaces/measured/pods?watch=1&fieldSelector=spec.nodeName!%3D"
        for line in self.lines.pop(0):
            yield line


EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410}}'


async def test_bound_pods_are_counted_once_over_broken_watches():
    counts = []
    bound = BoundPods(BrokenWatches(), "measured", 2, counts.append)

    assert await bound.wait(60)
    assert set(bound.stamps) == {"a", "b"}
    assert counts == [1, 1, 2]


async def test_a_run_ends_when_nothing_is_bound_any_more():
    class Silent:
        async def watch(self, path):
            yield b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}'
            await asyncio.Event().wait()

    bound = BoundPods(Silent(), "measured", 2, lambda count: None)

    assert not await bound.wait(0.01)
    assert set(bound.stamps) == {"a"}


def test_the_null_scheduler_reads_an_error_of_a_watch():
    assert msgspec.json.decode(EXPIRED, type=_Event).type == "ERROR"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_and_a_file_gets_lines():
    times = iter(range(100))
    terminal, file = Terminal(), io.StringIO()
    for out in (terminal, file):
        progress = Progress(2, out, lambda: float(next(times)))
        progress.begin("basic")
        progress.step("bound", 1234)
        progress.end("first")
        progress.begin("spread")
        progress.end("second")

    assert "bound 1,234" in terminal.getvalue()
    assert "[############............] 1/2" in terminal.getvalue()
    assert file.getvalue() == "[1/2] basic\nfirst\n[2/2] spread\nsecond\n"


def runs(*arguments):
    options = throughput._options(arguments)
    return [
        (each.workload.name, each.mode, each.turn, each.scheduler.name)
        for each in throughput._measurements(options)
    ]


def test_turns_are_interleaved_and_modes_that_make_no_sense_are_left_out():
    found = runs("--only", "secrets", "preemption-basic", "--turns", "2", "--scale", "tiny")

    assert found[:4] == [
        ("secrets", "drain", 1, "py-scheduler"),
        ("secrets", "drain", 1, "kube-scheduler"),
        ("secrets", "drain", 1, "null"),
        ("secrets", "drain", 2, "py-scheduler"),
    ]
    assert {mode for name, mode, *_ in found if name == "preemption-basic"} == {"stream"}


def test_any_scheduler_takes_part_by_its_command():
    found = runs("--only", "secrets", "--schedulers", "--command", "mine=/bin/mine {kubeconfig}")

    assert {scheduler for *_, scheduler in found} == {"mine"}
    assert command_scheduler("mine=/bin/mine").scheduler_name == "mine"


@pytest.mark.parametrize("words", ["mine", "=/bin/mine", "mine="])
def test_a_command_without_a_name_or_a_program_is_a_line_and_an_exit_code(words, capsys):
    assert throughput.main(["--command", words]) == 2
    assert "NAME=PROGRAM" in capsys.readouterr().err


def test_a_workload_that_is_unknown_is_a_line_and_an_exit_code(capsys):
    assert throughput.main(["--only", "other"]) == 2
    assert "there is no workload 'other'" in capsys.readouterr().err


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_decided_in_a_small_cluster(name):
    costs = list(measure(name, 40, 80, 8, by_plugin=True))

    assert [cost.warm for cost in costs] == [False, True][: 1 + (kept_templates() is not None)]
    assert all(cost.median > 0 and cost.kind == name for cost in costs)
    assert costs[0].plugins


def test_decisions_place_pods_and_no_two_pods_are_one_object():
    kind = KINDS[PLAIN]
    cache = cluster(kind, 10, 20)
    before = cache.sizes()
    list(decisions(kind, cache, range(20, 25)))
    maker = PodMaker(kind, MEASURED)

    assert cache.sizes() != before
    assert maker.make(1) is not maker.make(1)
    assert maker.make(1, "node-3").spec.node_name == "node-3"


def test_pods_that_take_a_node_each_leave_nodes_for_the_decisions():
    kind = KINDS["required anti-affinity, host"]

    assert decisions_possible(kind, 100, 300) == 25
    assert decisions_possible(KINDS[PLAIN], 100, 300) == 300


def test_a_commit_that_does_not_exist_is_named():
    with (
        pytest.raises(ValueError, match="there is no commit 'no-such'"),
        trees.other_commit("no-such"),
    ):
        pass


def test_another_commit_is_measured_by_this_benchmark():
    with trees.other_commit("HEAD") as tree:
        code = "import benchmarks, scheduler; print(benchmarks.__file__); print(scheduler.__file__)"
        assert (tree.path / "benchmarks" / "trees.py").read_text() == trees.ROOT.joinpath(
            "benchmarks/trees.py"
        ).read_text()
        (tree.path / "show.py").write_text(code)
        places = list(tree.run("show"))

    assert all(place.startswith(str(tree.path)) for place in places)
    assert not tree.path.exists()
