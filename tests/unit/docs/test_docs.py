"""What the documents say is so: each claim that can be looked up is looked up."""

import ast
import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml

import scheduler
from scheduler.cli.check import check as check_command
from scheduler.cli.run import run as run_command
from scheduler.config import document, plugin_args
from scheduler.config.configuration import read
from scheduler.config.default_plugins import missing_among
from scheduler.explain.request import ExplainRequest, explain_pod
from scheduler.framework.registry import Registry
from scheduler.observe import event_names, families
from scheduler.plugins import IN_TREE
from scheduler.snapshot.node_table import NodeTable

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md"))
)
ROOMS = sorted(path.parent.name for path in ROOT.glob("scheduler/*/__init__.py"))


def _read(name):
    return (ROOT / name).read_text()


def _section(page, heading):
    _, _, rest = page.partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0]


def _blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def _words(text):
    return " ".join(text.replace("``", "`").split())


def _docstring(path):
    return ast.get_docstring(ast.parse((ROOT / path).read_text()))


@pytest.mark.parametrize("room", ROOMS)
def test_the_door_of_a_room_reads_the_same_in_the_architecture(room):
    page = _words(_read("docs/architecture.md"))

    assert f"### scheduler.{room} " in page
    for paragraph in _docstring(f"scheduler/{room}/__init__.py").split("\n\n"):
        assert _words(paragraph) in page, f"docs/architecture.md tells of {room} in other words"


@pytest.mark.parametrize("module", ["kube/reflector"])
def test_the_architecture_draws_other_state_machines_as_their_modules_do(module):
    page = _words(_read("docs/architecture.md"))
    table = _docstring(f"scheduler/{module}.py").split("\n=")[1:]
    lines = [line for part in table for line in part.splitlines()[1:] if "  " in line.strip()]

    assert lines
    for line in lines:
        assert _words(" | ".join(re.split(r" {2,}", line.strip()))) in page, line


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(page):
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", _read("Makefile"), re.MULTILINE))
    text = page.read_text()

    assert set(re.findall(r"`make ([a-z0-9-]+)", text)) <= targets
    assert set(re.findall(r"^(?:\$ )?make ([a-z0-9-]+)", text, re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_that_are_shown_can_be_read(page):
    """Every YAML block parses; every configuration is one that the scheduler accepts."""
    registry = Registry(IN_TREE).with_plugins(
        {
            "PreferSpot": _Scores,
            "prefer_spot:PreferSpot": _Scores,
            "avoid_draining:AvoidDraining": _Filters,
            "load_aware:LoadAware": _Scores,
        }
    )
    for block in _blocks(page.read_text(), "yaml"):
        documents = list(yaml.safe_load_all(block))
        if documents[0].get("kind") == "KubeSchedulerConfiguration":
            read(block).resolve(registry.available)


class _Scores:
    def score(self): ...


class _Filters:
    def filter(self): ...


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_that_is_shown_is_python_and_the_plugin_is_the_example(page):
    example = _read("examples/01-score-plugin/prefer_spot.py")
    for block in _blocks(page.read_text(), "python"):
        compile(block, str(page), "exec")
        if "class PreferSpot" in block:
            assert block == example


@pytest.mark.parametrize("page", ["README.md", "docs/plugins.md"])
def test_the_plugin_in_ten_lines_is_shown(page):
    example = _read("examples/01-score-plugin/prefer_spot.py")

    assert example in _blocks(_read(page), "python")
    assert len(example.splitlines()) == 10


def test_tests_that_hold_a_difference_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", _read("docs/semantics.md"))

    assert len(named) > 15
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", _read(path), re.MULTILINE), f"{path}::{name}"


@pytest.mark.parametrize("page", ["README.md", "docs/semantics.md"])
def test_what_is_not_there_yet_is_named_and_nothing_else(page):
    missing = set(missing_among(Registry(IN_TREE).available))
    section = _section(_read(page), "Not there yet")

    assert {name for name in missing if name in section} == missing
    assert not [name for name in IN_TREE if name in section]


def test_every_plugin_has_its_row():
    rows = re.findall(
        r"^\| (\w+) \|", _section(_read("docs/semantics.md"), "Plugins"), re.MULTILINE
    )

    assert sorted(set(rows) - {"Plugin"}) == sorted(IN_TREE)


def test_every_field_of_an_explanation_is_promised():
    pods = [("busy", "3", 0, "n"), ("web", "2", 1, "")]
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "4", "pods": "9"}},
        },
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "priority": priority,
                    "nodeName": node,
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                },
            }
            for name, cpu, priority, node in pods
        ),
    ]
    dump = ("dump", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    said = explain_pod(ExplainRequest(name="web", snapshots=(dump,)))
    first, second = _section(_read("docs/explain.md"), "The document").split("`preemption` tells")

    assert re.findall(r"^\| `(\w+)` \|", first, re.MULTILINE) == list(said)
    assert re.findall(r"^\| `(\w+)` \|", second, re.MULTILINE) == list(said["preemption"])


@pytest.mark.parametrize(
    ("heading", "command"), [("Flags", run_command), ("Check beforehand", check_command)]
)
def test_every_flag_is_listed(heading, command):
    page = _section(_read("docs/operations.md"), heading)
    flags = {flag for option in command.params for flag in option.opts}

    assert set(re.findall(r"`(--[a-z0-9-]+)`", page)) == flags


def test_every_alert_has_its_entry():
    alerts = yaml.safe_load(_read("charts/py-scheduler/files/alerts.yaml"))["groups"][0]["rules"]
    page = _section(_read("docs/operations.md"), "Alerts")
    entries = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", page, re.DOTALL | re.MULTILINE))

    assert list(entries) == [each["alert"] for each in alerts]
    for each in alerts:
        anchor = each["annotations"]["runbook_url"].partition("docs/operations.md#")[2]
        assert anchor == each["alert"].lower()
        severity = each["labels"]["severity"].capitalize()
        for part in (f"**Means.** {severity}: ", "**Look at.** ", "**Do.** "):
            assert part in entries[each["alert"]], f"{each['alert']}: {part}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_metrics_that_are_named_exist(page):
    text = page.read_text()
    left_out = "" if page.name != "semantics.md" else _section(text, "Metrics")
    named = re.findall(
        r"\b((?:py_scheduler|scheduler|rest_client|leader_election)_\w+)",
        text.replace(left_out, "") if left_out else text,
    )
    known = {family.name for family in families.FAMILIES}
    others = {"scheduler_name"}

    assert {re.sub("_(bucket|sum|count)$", "", each) for each in named} - others <= known


@pytest.mark.parametrize("name", ["alerts.yaml", "dashboard.json"])
def test_metrics_that_are_asked_for_exist(name):
    text = _read(f"charts/py-scheduler/files/{name}")
    asked = re.findall(r"\b((?:py_)?(?:scheduler|rest_client|leader_election)_\w+)", text)
    known = {family.name for family in families.FAMILIES}

    assert asked
    assert {re.sub("_bucket$", "", each) for each in asked} <= known


def test_the_dashboard_opens_on_us():
    """And not on kube-scheduler, which tells the same metrics and comes first in the alphabet."""
    dashboard = json.loads(_read("charts/py-scheduler/files/dashboard.json"))
    (job,) = [each for each in dashboard["templating"]["list"] if each["name"] == "job"]

    assert job["query"]["query"] == f"label_values({families.BUILD.name}, job)"


def test_every_log_event_that_is_written_is_explained():
    """Names that nobody writes yet are kept for what comes; they need no explanation."""
    page = _section(_read("docs/operations.md"), "Log events")
    listed = set(re.findall(r"^\|(.+?)\|", page, re.MULTILINE))
    explained = {name for cell in listed for name in re.findall(r"`([a-z_.]+)`", cell)}
    names = {
        name: value
        for name, value in vars(event_names).items()
        if name.isupper() and isinstance(value, str)
    }
    sources = "".join(path.read_text() for path in ROOT.glob("scheduler/**/*.py"))
    written = {value for name, value in names.items() if f"event_names.{name}" in sources}

    assert written <= explained, f"explain {written - explained} in docs/operations.md"
    assert explained <= set(names.values())


def test_every_metric_is_listed():
    page = _section(_read("docs/operations.md"), "Metrics")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+?) \|", page, re.MULTILINE)

    assert {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows} == {
        family.name: (family.kind, family.labels) for family in families.FAMILIES
    }


def test_permissions_are_those_that_integration_tests_run_with():
    (block,) = _blocks(_section(_read("docs/operations.md"), "Permissions"), "yaml")

    assert block == _read("deploy/rbac.yaml")


def test_every_field_of_the_configuration_is_told():
    page = _read("docs/configuration.md")
    structs = [
        document.KubeSchedulerConfiguration,
        document.LeaderElection,
        document.ClientConnection,
        document.KubeSchedulerProfile,
        document.Plugins,
        document.Extender,
        *plugin_args.TYPED.values(),
    ]
    for struct in structs:
        for field in msgspec.structs.fields(struct):
            assert f"`{field.encode_name}`" in page, f"{struct.__name__}.{field.encode_name}"


def test_decisions_are_numbered_and_half_a_page():
    pages = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))

    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    for name in pages:
        text = _read(f"docs/decisions/{name}")
        assert len(text.splitlines()) < 40
        for part in ("What hurt.", "What we chose.", "What we gave up.", "When to look again."):
            assert f"**{part}**" in text, name


def test_rooms_are_all_drawn():
    """The picture in the architecture names every room of the package."""
    (picture, *_) = _blocks(_read("docs/architecture.md"), "")

    assert [room for room in ROOMS if room != "testing" and room not in picture] == []


def test_what_a_table_can_be_asked_is_there():
    named = set(re.findall(r"\bnodes\.(\w+)", _read("docs/plugins.md")))

    assert named
    assert [name for name in named if not hasattr(NodeTable, name)] == []


def test_public_names_that_documents_import_are_public():
    for page in PAGES:
        for block in _blocks(page.read_text(), "python"):
            for names in re.findall(r"^from scheduler import (.+)$", block, re.MULTILINE):
                assert set(names.split(", ")) <= set(scheduler.__all__), page
