"""What the API server was asked, by its own account: chosen requests in an audit log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.api import Json

BINDINGS: Final[Json] = {
    "level": "Metadata",
    "verbs": ["create"],
    "resources": [{"resources": ["pods/binding"]}],
}


class AuditLog:
    """The requests that a rule is about, each once it was answered.

    Args:
        directory: Where policy and log are kept.
        rule: One of a policy's, as `BINDINGS`.
    """

    def __init__(self, directory: Path, rule: Json) -> None:
        self._log = directory / "audit.log"
        self._policy = directory / "audit-policy.json"
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [rule, {"level": "None"}],
        }
        self._policy.write_text(json.dumps(policy))

    @property
    def flags(self) -> tuple[str, str]:
        """Flags of the API server that writes it."""
        return f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"

    def entries(self) -> Iterator[Json]:
        """Yield what was asked so far, in the order of the answers."""
        # What follows the last line's end is still being written.
        whole = self._log.read_text().rpartition("\n")[0]
        yield from map(json.loads, whole.splitlines())
