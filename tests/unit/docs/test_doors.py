"""What the architecture says about doors is so: who imports whom, who reads clocks, who acts.

Claims are computed from the code: from its graph of imports, and from its syntax.
``pytest tests/unit/docs/test_doors.py --rewrite`` writes the sentences about imports anew.
"""

import ast
import re
import textwrap
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "scheduler"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
NO_ROOMS = {"version"}
BELOW_THE_LINE = (
    *("cycle", "plugins", "cache", "queue"),
    *("framework", "snapshot", "model", "config", "errors"),
)
VALUES_ONLY = {
    *("array", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses"),
    *("datetime", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "itertools"),
    *("math", "operator", "re", "types", "typing", "weakref", "__future__"),
    *("msgspec", "numpy", "yaml", "scheduler"),
}
"""What may be imported below the line. `datetime` is there to read and write stamps."""
ACTS = {"open", "input", "print", "exec", "eval", "breakpoint"}
WALL_CLOCKS = {
    *("time.time", "time.time_ns", "time.ctime", "time.localtime", "time.gmtime", "time.strftime"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"),
    "datetime.date.today",
}
WALL_TIME = {
    "crds/configuration.py": "stamps of a status",
    "explain/request.py": "when a picture was taken",
    "kube/event_recorder.py": "stamps of events",
    "kube/kubeconfig.py": "whether credentials that name their end are still good",
    "kube/lease.py": "stamps of the lease",
    "reporting/clock.py": "stamps of conditions, and rejections by a kubelet before the start",
    "observe/certificate.py": "stamps of a self-signed certificate",
    "reload/report.py": "when a configuration was applied, as a metric",
}
"""Who reads the time of day, and what for."""
HTTP_CLIENTS = {
    *("aiohttp", "http.client", "httpx", "kubernetes", "requests", "socketserver"),
    *("urllib.request", "urllib3"),
}
SERVER = {"aiohttp.web", "aiohttp.typedefs"}
BUILT_ONCE = {
    *("CacheComparer", "EventRecorder", "Leadership", "Metrics"),
    *("Reloader", "SchedulerCore", "Telemetry", "Watches"),
}
"""Parts of which a process has one."""


def modules(*rooms):
    """Yield every module of the product, or of some rooms, with its name and syntax."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        room = name.partition("/")[0].removesuffix(".py")
        if room != "testing" and (not rooms or room in rooms):
            yield name, ast.parse(path.read_text())


def imports(tree):
    """Yield the full name of everything that is imported, and the name under which it is known."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name, each.asname or each.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                yield f"{node.module}.{each.name}", each.asname or each.name


def uses(tree):
    """Yield every name in full that the code uses: ``time.time`` however it was imported."""
    known = {alias: name for name, alias in imports(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            head, dot, rest = ast.unparse(node).partition(".")
            yield known.get(head, head) + dot + rest


def calls(tree):
    """Yield what is called, by the name that the code has for it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.time()",
        "from time import time as now\nnow()",
        "import datetime as dt\ndt.datetime.now()",
        "from datetime import UTC, datetime\nstamp = datetime.now(UTC)",
        "import time\ndef f(wall=time.time): ...",
    ],
)
def test_a_wall_clock_is_seen_however_it_is_imported(code):
    assert WALL_CLOCKS & set(uses(ast.parse(code)))


def test_below_the_line_nothing_is_imported_that_could_act():
    for name, tree in modules(*BELOW_THE_LINE):
        found = {imported.partition(".")[0] for imported, _ in imports(tree)}
        assert found <= VALUES_ONLY, f"{name} imports {found - VALUES_ONLY}"


def test_below_the_line_no_file_is_opened_and_no_clock_is_read():
    for name, tree in modules(*BELOW_THE_LINE):
        assert not ACTS & set(calls(tree)), name
        assert not WALL_CLOCKS & set(uses(tree)), name


def test_the_time_of_day_is_read_for_stamps_alone():
    """Decisions depend on monotonic seconds: a clock that is set must not move a pod."""
    found = {name for name, tree in modules() if WALL_CLOCKS & set(uses(tree))}

    assert found == set(WALL_TIME), "say in WALL_TIME what for, or take monotonic seconds"


def test_only_kube_is_a_client_of_http():
    for name, tree in modules():
        clients = {
            imported
            for imported, _ in imports(tree)
            if any(f"{imported}.".startswith(f"{client}.") for client in HTTP_CLIENTS)
            and not any(f"{imported}.".startswith(f"{server}.") for server in SERVER)
        }
        # The environment is read there, nothing is requested.
        clients -= {"urllib.request.getproxies_environment"}
        assert not clients or name.startswith("kube/"), f"{name} imports {clients}"


def test_only_app_builds_the_parts_of_a_process():
    found = {(name, call) for name, tree in modules() for call in calls(tree) if call in BUILT_ONCE}

    assert found == {("app.py", part) for part in BUILT_ONCE}


def test_the_queue_has_one_door():
    """Others reach what waits through `SchedulingQueue`; values and rules are not its state."""
    values = {"hints", "observer", "queue_settings", "queue_state", "queued_pod"}
    for name, tree in modules():
        found = {
            imported.split(".")[2]
            for imported, _ in imports(tree)
            if imported.startswith("scheduler.queue.") and not name.startswith("queue/")
        }
        assert found <= values | {"scheduling_queue"}, name
        parts = [each for each in uses(tree) if re.search(r"\bqueue\.[a-z_]+\.", each)]
        inside = [each for each in parts if not each.startswith("scheduler.queue.")]
        assert name.startswith("queue/") or not inside, f"{name} reaches into the queue: {inside}"


# Who imports whom.


@pytest.fixture(scope="module")
def importing():
    """Return which rooms and modules of the package each room imports; itself left out."""
    graph = grimp.build_graph("scheduler")
    found = {room: set() for room in ROOMS}
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            one, other = (name.split(".")[1:2] for name in (importer, imported))
            if one and other and one != other and other[0] not in NO_ROOMS:
                found.setdefault(one[0], set()).add(other[0])
    return found


def sentence(room, importing):
    """Return what the door of a room has to say."""
    below = sorted(importing[room])
    above = sorted(name for name, imported in importing.items() if room in imported)
    above = [name for name in above if name != "testing"]
    says = f"This room imports {listed(below)}." if below else "This room imports no other."
    return f"{says} It is imported by {listed(above)}." if above else f"{says} No other imports it."


def listed(names):
    """Join names as a sentence does."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


@pytest.mark.parametrize("room", ROOMS)
def test_a_door_says_who_imports_whom(room, importing, request):
    expected = sentence(room, importing)
    if request.config.getoption("--rewrite"):
        rewrite(room, textwrap.fill(expected, 100))
    *_, said = ast.get_docstring(ast.parse(door_of(room).read_text())).split("\n\n")

    assert " ".join(said.split()) == expected, "the doors can be written anew: pytest --rewrite"


@pytest.mark.parametrize("room", ROOMS)
def test_a_door_claims_nothing_else_about_imports(room):
    *told, _ = ast.get_docstring(ast.parse(door_of(room).read_text())).split("\n\n")

    assert not re.search(r"\b(knows|known by|may know|know it)\b", " ".join(told)), (
        "say what is imported, or what is done"
    )


def door_of(room):
    """Return the file in which a room says what it is."""
    return PACKAGE / room / "__init__.py"


def rewrite(room, paragraph):
    """Write the last paragraph of a door anew, in the code and in the architecture."""
    door, page = door_of(room), ROOT / "docs" / "architecture.md"
    text = door.read_text()
    end = text.index('"""', 3)
    head = text[:end].partition("\n\nThis room imports ")[0].rstrip("\n")
    door.write_text(f"{head}\n\n{paragraph}\n{text[end:]}")
    before, heading, rest = page.read_text().partition(f"### scheduler.{room} \n")
    if not heading:
        before, heading, rest = page.read_text().partition(f"### scheduler.{room}\n")
    body, following, rest = rest.partition("\n#")
    body = body.partition("\n\nThis room imports ")[0].rstrip("\n")
    page.write_text(f"{before}{heading}{body}\n\n{paragraph}\n{following}{rest}")
