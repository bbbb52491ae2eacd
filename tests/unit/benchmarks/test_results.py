"""Results: saved and read, summed up in tables and charts, and shown by the page that exists."""

import msgspec
import pytest

from benchmarks import report, results, tables
from benchmarks.decision_results import (
    Cost,
    DecisionReport,
    Memory,
    compare_tables,
    load_decisions,
    report_tables,
    save_decisions,
)
from benchmarks.figures import Latency, Rates
from benchmarks.results import Machine, Run
from benchmarks.usage import Usage, parse

MACHINE = Machine(2, 23, "some processor", "Linux", "3.11.7", "v1.36.0", "abc", 0.1)


def run(scheduler="py-scheduler", rate=100.0, turn=1, **fields):
    usage = {
        "scheduler": Usage(1.0, 100.0),
        "kube-apiserver": Usage(5.0, 500.0),
        "etcd": Usage(2.0, 200.0),
    }
    base = Run(
        workload="scheduling-basic",
        scale="small",
        mode="stream",
        scheduler=scheduler,
        turn=turn,
        sizes={"nodes": 1000, "measured": 1000},
        pods=1000,
        bound=1000,
        rates=Rates(middle=2 * rate, end_to_end=rate, upstream=rate),
        latency=Latency(1.5, 20.0, 300.0, 400.0),
        first_seconds=0.1,
        per_second=[500, 500],
        usage=usage,
        start_cpu_seconds=0.5,
        victims=0,
        problems=[],
        machine=MACHINE,
    )
    return msgspec.structs.replace(base, **fields)


RUNS = [
    run(turn=1, rate=100),
    run(turn=2, rate=300),
    run(turn=3, rate=200),
    run("kube-scheduler", rate=50),
    run("null", rate=400),
]


def test_a_run_is_the_same_after_it_was_saved(tmp_path):
    for each in RUNS:
        results.save(each, tmp_path)

    assert sorted(results.load(tmp_path), key=str) == sorted(RUNS, key=str)
    assert results.load(tmp_path / "nowhere") == []


def test_drained_pods_have_the_rate_of_the_middle_and_others_that_of_the_whole():
    assert run(rate=10).pods_per_second == 10
    assert run(rate=10, mode="drain").pods_per_second == 20


def test_a_machine_is_described_without_names(tmp_path):
    words = str(results.machine())

    assert results.machine().cores > 0
    assert str(tmp_path.parent) not in words
    assert "/" not in results.machine().commit


def test_tables_show_median_range_and_ratios():
    (_, _, row) = tables.rates_table(RUNS, "stream").splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]

    assert cells == [
        "scheduling-basic",
        "200 (100-300)",
        "50 (50-50)",
        "400 (400-400)",
        "4.00",
        "0.50",
    ]
    assert "1.5 / 20.0 / 300" in tables.latency_table(RUNS, "stream")
    assert "5.00; 500" in tables.servers_table(RUNS, "stream")


def test_a_table_says_where_there_is_nothing():
    row = tables.cost_table(RUNS[:1], "stream").splitlines()[-1]

    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == [
        "1.00",
        "-",
        "-",
        "100",
        "-",
        "-",
    ]
    assert tables.by_workload(RUNS, "drain") == {}


def test_every_table_is_on_the_terminal():
    text = tables.throughput_tables([*RUNS, run(mode="drain", latency=None)])

    assert text.count("\nstream\n") == text.count("\ndrain\n") == 1
    assert text.count("p50") == 1


def test_rows_that_fall_short_are_named():
    good = [
        run(rate=200, usage={"scheduler": Usage(0.2, 10.0)}),
        run("kube-scheduler", rate=100),
        run("null", rate=1000),
    ]
    assert list(report.shortfalls(good)) == []

    demanding = [msgspec.structs.replace(each, workload="pod-affinity") for each in good]
    assert list(report.shortfalls(demanding)) == [
        "pod-affinity, stream: 2.00 times the rate, 0.20 of null",
        "pod-affinity, stream: 0.20 of the CPU, 0.125 is the aim",
    ]


def cost(kind, median, *, warm=False, nodes=5000):
    plugins = {"NodeResourcesFit Filter": 30.0}
    return Cost(kind, nodes, 2 * nodes, warm, median, 2 * median, 3 * median, plugins)


def decisions(*costs, commit="abc"):
    machine = msgspec.structs.replace(MACHINE, commit=commit)
    return DecisionReport(machine, list(costs), Memory(5000, 50000, 2000, 2400))


def test_decisions_are_saved_and_shown(tmp_path):
    found = decisions(cost("plain", 500.0), cost("plain", 100.0, warm=True), cost("spread", 600.0))
    save_decisions(found, tmp_path)

    assert load_decisions(tmp_path) == found
    assert load_decisions(tmp_path / "nowhere") is None
    text = report_tables(found)
    assert "500 / 100" in text
    assert "1.20" in text
    assert "0.20" in text
    assert "2,400" in text
    assert "NodeResourcesFit Filter 30" in text


def test_a_commit_without_warm_decisions_is_compared_by_its_cold_ones():
    ours = decisions(cost("plain", 500.0), cost("plain", 100.0, warm=True))
    text = compare_tables(ours, decisions(cost("plain", 400.0), commit="before"))

    assert "1.25" in text
    assert "0.25" in text
    assert "before" in text


def test_the_median_of_turns_is_taken_for_each_cost():
    turns = [decisions(cost("plain", median)) for median in (3.0, 1.0, 2.0)]

    assert turns[0].median_with(turns[1:]).costs[0].median == 2.0


def test_the_page_shows_what_the_committed_results_say():
    """If it fails, run: python -m benchmarks.report."""
    runs, decided = results.load(results.PUBLISHED), load_decisions(results.PUBLISHED)
    page = report.PAGE.read_text()

    assert "<!-- computed " in page
    assert report.with_blocks(page, report.blocks(runs, decided)) == page
    for name, text in report.charts(runs, decided).items():
        assert report.IMAGES.joinpath(name).read_text() == text


def test_blocks_are_replaced_as_often_as_they_are_computed_anew():
    page = "a\n<!-- computed drain-rates -->\nold\n<!-- end drain-rates -->\nb\n"
    once = report.with_blocks(page, {"drain-rates": "new"})

    assert once == page.replace("old", "new")
    assert report.with_blocks(once, {"drain-rates": "new"}) == once
    with pytest.raises(KeyError):
        report.with_blocks(page, {})


def test_charts_and_blocks_are_made_of_whatever_there_is():
    found = decisions(cost("plain", 500.0), cost("plain", 100.0, warm=True))

    assert set(report.charts(RUNS, found)) == {"rates-stream.svg", "cpu-stream.svg", "decision.svg"}
    assert report.charts([], None) == {}
    texts = report.blocks(RUNS, found)
    assert set(texts) == set(report.blocks([], None))
    assert set(report.blocks([], None).values()) == {report.NOTHING}
    assert "2 cores (some processor), 23 GiB" in texts["machine"]


def test_usage_is_read_as_linux_writes_it():
    stat = f"12 (a name) with) S {' '.join(str(number) for number in range(1, 40))}"
    status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n"

    found = parse(stat, status)

    assert found.peak_mb == 2.0
    assert found.cpu_seconds > 0
    assert found.since(Usage(found.cpu_seconds, 5.0)).cpu_seconds == 0
