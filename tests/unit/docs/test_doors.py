"""What the architecture says about doors is so: who imports whom, who reads clocks, who acts.

Claims are computed from the code: from its graph of imports, and from its syntax.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "scheduler"
BELOW_THE_LINE = (
    *("cycle", "plugins", "cache", "queue"),
    *("framework", "snapshot", "model", "config", "errors"),
)
VALUES_ONLY = {
    *("base64", "binascii", "bisect", "collections", "contextlib", "dataclasses", "datetime"),
    *("difflib", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "math"),
    *("operator", "re", "types", "typing", "__future__"),
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
    "observe/certificate.py": "whether a certificate that names its end is still good",
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
