"""Renders the chart: into ``deploy/`` for those who do without Helm, and into objects for tests.

``python -m hack.manifests`` writes the rules of the ClusterRole (`hack.rbac`) and then ``deploy/``;
tests compare both with what would be written.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from hack import rbac
from hack.binaries import ensure

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "charts" / "py-scheduler"
DEPLOY: Final = ROOT / "deploy"
FOLDERS: Final = {
    DEPLOY: (),
    DEPLOY / "with-config-resource": ("--set", "configResource.name=main"),
}
"""What is rendered, and the flags that it is rendered with."""
NAMESPACE: Final = "kube-system"
RELEASE: Final = "py-scheduler"

_HEAD: Final = "# Rendered from charts/py-scheduler by: make manifests\n"
_SOURCE: Final = re.compile(r"^# Source: [^/]+/templates/(.+)$", re.MULTILINE)
# Plain manifests have no Helm release that these labels could name.
_OF_HELM: Final = re.compile(
    r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE
)


def helm(*arguments: str | Path) -> str:
    """Run helm and return what it printed.

    Raises:
        RuntimeError: helm failed; the message is what it said.
    """
    command = [str(ensure(["helm"])["helm"]), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"helm {arguments[0]}: {done.stderr.strip()} {done.stdout.strip()}")
    return done.stdout


def template(*flags: str | Path, release: str = RELEASE, namespace: str = NAMESPACE) -> str:
    """Render the chart with *flags* and return the text."""
    return helm("template", release, CHART, "--namespace", namespace, *flags)


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects in a stream of YAML documents."""
    return [each for each in yaml.safe_load_all(text) if each]


def files(*flags: str) -> dict[str, str]:
    """Return what ``deploy/`` holds, by file name; rendered with *flags*."""
    found: dict[str, str] = {}
    for document in template("--no-hooks", *flags).split("---\n"):
        source = _SOURCE.search(document)
        if source is not None:
            body = _OF_HELM.sub("", document[source.end() :].lstrip("\n"))
            name = source.group(1)
            found[name] = f"{found[name]}---\n{body}" if name in found else _HEAD + body
    found["kustomization.yaml"] = _kustomization(sorted(found))
    return found


def _kustomization(names: Sequence[str]) -> str:
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": list(names),
    }
    return _HEAD + yaml.safe_dump(document, sort_keys=False)


def main() -> None:
    """Write all of them."""
    rbac.main()
    for folder, flags in FOLDERS.items():
        folder.mkdir(exist_ok=True)
        for stale in folder.glob("*.yaml"):
            stale.unlink()
        for name, text in files(*flags).items():
            (folder / name).write_text(text)


if __name__ == "__main__":
    main()
