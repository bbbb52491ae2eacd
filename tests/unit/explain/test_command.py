"""The command line of `py-scheduler explain`: tables, documents and mistakes."""

import gzip
import json

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli import main
from tests.unit.explain.explain_calls import (
    CLUSTER,
    FULL,
    URGENT,
    dump,
    explain_known,
    new,
    node,
    running,
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "dump.json").write_text(dump(*CLUSTER)[1])
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(new()))
    return tmp_path


def invoke(*args, **settings):
    return CliRunner().invoke(main, ["explain", *map(str, args)], **settings)


def test_the_table_shows_it_all(files):
    result = invoke("web", "-s", files / "dump.json")

    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "Pod default/web, priority 0" in lines
    assert "Decision Bind: default/web would be bound to free" in lines
    assert any(line.startswith("free * ") and "0 > 100 > 300" in line for line in lines)
    assert "kept TaintToleration no node(s) had untolerated taint(s)" in lines
    assert "NodeResourcesFit no Insufficient cpu" in lines
    assert any(line.startswith("Missing no Service in the snapshot") for line in lines)


def test_the_table_shows_the_ways_to_make_room():
    items = (*(node(name) for name in "abc"), *FULL, running("c1", "c", cpu="4"), URGENT)

    result = invoke("web", "-s", "-", input=dump(*items)[1])

    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    start = lines.index("PREEMPTION ON BUDGETS VIOLATED WOULD EVICT")
    assert sorted(line.replace(" *", "") for line in lines[start + 1 : start + 3]) == [
        "a 0 default/a1",
        "c 0 default/c1",
    ]
    assert " *" in lines[start + 1]
    assert any(line.startswith("Evicts default/") for line in lines)


def test_the_table_can_be_shortened(files):
    result = invoke("web", "-s", files / "dump.json", "--limit", "1")

    assert "full" in result.output
    assert "kept" not in result.output
    assert "… and 1 more" in result.output


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_can_be_read_back(files, output, read):
    result = invoke("-f", files / "pod.yaml", "-s", "-", "-o", output, input=dump(*CLUSTER)[1])

    assert read(result.output)["node"] == "free"
    assert list(read(result.output)) == list(explain_known())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "give either the NAME of a pod or a manifest with -f"),
        (("web", "-f", "x"), "give either the NAME of a pod or a manifest with -f"),
        (("-f", "-", "-s", "-"), "only one file can be read from standard input"),
        (("web", "-s", "x", "--context", "c"), "with --snapshot no API server is used"),
        (("web", "-s", "nowhere"), "error: --snapshot: cannot read nowhere: No such file"),
        (("shop/web", "-s", "x"), "a name has no slash: write -n shop web"),
    ],
)
def test_mistakes_cost_one_line_and_exit_code_2(args, says):
    result = invoke(*args)

    assert result.exit_code == 2
    assert says in result.output


def test_a_compressed_snapshot_is_named_as_such(tmp_path):
    path = tmp_path / "dump.json.gz"
    path.write_bytes(gzip.compress(dump(*CLUSTER)[1].encode()))

    result = invoke("web", "-s", path)

    assert result.exit_code == 2
    assert "is compressed; unpack it first, as by zcat" in result.output


def test_a_pod_may_be_named_as_kubectl_names_it(files):
    assert invoke("pod/web", "-s", files / "dump.json").exit_code == 0
