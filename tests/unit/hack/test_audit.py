"""An audit log tells what was asked, as far as it is written."""

import json
from pathlib import Path

from hack.audit import BINDINGS, AuditLog


def test_the_policy_names_what_is_logged_and_nothing_else(tmp_path):
    policy, _ = AuditLog(tmp_path, BINDINGS).flags

    written = json.loads((tmp_path / policy.rpartition("/")[2]).read_text())
    assert policy == f"--audit-policy-file={tmp_path}/audit-policy.json"
    assert written["rules"] == [BINDINGS, {"level": "None"}]


def test_an_incomplete_line_is_left_out(tmp_path):
    log = AuditLog(tmp_path, BINDINGS)
    path = Path(log.flags[1].partition("=")[2])
    path.write_text('{"verb": "create"}\n{"verb": "get"}\n{"verb": "cre')

    assert [each["verb"] for each in log.entries()] == ["create", "get"]
