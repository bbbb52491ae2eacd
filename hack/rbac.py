"""Writes the rules of the chart's ClusterRole from what the default profile needs.

``python -m hack.rbac`` writes them; a test compares. Whoever enables other plugins adds what they
need as ``rbac.extraRules``: ``py-scheduler check --rules --config FILE`` prints it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from scheduler.checkup import rules
from scheduler.config.run_settings import RunSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.kube.permissions import Permission

RULES: Final = Path(__file__).parents[1] / "charts" / "py-scheduler" / "files" / "rules.yaml"
_HEAD: Final = "# What the default plugins need and nothing else, written by: make manifests\n"


def written(permissions: Iterable[Permission] | None = None) -> str:
    """Return the file: each rule under a comment that says why."""
    if permissions is None:
        # The chart adds what HTTPS needs, where it is switched on.
        permissions = rules(RunSettings(insecure_metrics=True))
    return _HEAD + "".join(f"# {each.why}\n{_as_item(each)}" for each in permissions)


def _as_item(permission: Permission) -> str:
    return yaml.safe_dump([permission.rule], sort_keys=False, default_flow_style=None)


def main() -> None:
    """Write the file."""
    RULES.write_text(written())


if __name__ == "__main__":
    main()
