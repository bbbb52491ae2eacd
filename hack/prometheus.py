"""A real Prometheus on the loopback, scraping what runs beside a local control plane.

Its configuration names the targets; nothing is discovered, and nothing outlives the control plane.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import yaml

from hack.api import request_text
from hack.binaries import ensure
from hack.kubeconfig import Access
from hack.ports import LOOPBACK, PortClaims

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from hack.control_plane import ControlPlane

Series = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """Something to scrape.

    Args:
        job: The label by which dashboards and alerts select it.
        port: On the loopback.
        token: A bearer token; with one it is asked over HTTPS, its certificate not being checked.
    """

    job: str
    port: int
    token: str = ""


class Prometheus:
    """A context manager; it ends with the control plane at the latest.

    Args:
        targets: What is scraped, once a second.
        rules: Files with rules that are evaluated.
    """

    def __init__(
        self, plane: ControlPlane, targets: Collection[Target], *, rules: Sequence[Path] = ()
    ) -> None:
        self._plane = plane
        self._targets = targets
        self._rules = rules
        self._ports = PortClaims()

    def __enter__(self) -> Self:
        port = self._ports.claim()
        self._access = Access(f"http://{LOOPBACK}:{port}", None, {})
        config = self._plane.directory / f"prometheus-{port}.yaml"
        config.write_text(yaml.safe_dump(self._configuration()))
        self._process = self._plane.spawn(
            f"prometheus-{port}",
            [
                ensure(["prometheus"])["prometheus"],
                f"--config.file={config}",
                f"--storage.tsdb.path={self._plane.directory / f'prometheus-{port}'}",
                f"--web.listen-address={LOOPBACK}:{port}",
                "--log.level=warn",
            ],
        )
        self._process.wait_until(self._is_ready, "ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()
        self._ports.release()

    def query(self, expression: str) -> list[Series]:
        """Return the current value of *expression*: one entry a series, without NaN."""
        found = self._ask("query", query=expression)["result"]
        return [each for each in found if each["value"][1] != "NaN"]

    def query_range(
        self, expression: str, seconds: float, *, step_seconds: float = 1.0
    ) -> list[Series]:
        """Return the course of *expression* over the last *seconds*."""
        now = time.time()
        found: list[Series] = self._ask(
            "query_range",
            query=expression,
            start=f"{now - seconds}",
            end=f"{now}",
            step=f"{step_seconds}",
        )["result"]
        return found

    def alerts(self) -> list[Series]:
        """Return the alerts that fire, or are about to."""
        found: list[Series] = self._ask("alerts")["alerts"]
        return found

    def _ask(self, what: str, **parameters: str) -> dict[str, Any]:
        path = f"/api/v1/{what}?{urlencode(parameters)}"
        status, text = request_text(self._access, "GET", path)
        if status != 200:
            raise ValueError(f"Prometheus: {parameters}: {text}")
        data: dict[str, Any] = json.loads(text)["data"]
        return data

    def _is_ready(self) -> bool:
        try:
            return request_text(self._access, "GET", "/-/ready")[0] == 200
        except (OSError, HTTPException):
            return False

    def _configuration(self) -> dict[str, Any]:
        jobs = dict.fromkeys(target.job for target in self._targets)
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in self._rules],
            "scrape_configs": [self._scrape_configuration(job) for job in jobs],
        }

    def _scrape_configuration(self, job: str) -> dict[str, Any]:
        targets = [target for target in self._targets if target.job == job]
        (token,) = {target.token for target in targets}
        config: dict[str, Any] = {
            "job_name": job,
            "static_configs": [{"targets": [f"{LOOPBACK}:{each.port}" for each in targets]}],
        }
        if token:
            config |= {
                "scheme": "https",
                "authorization": {"credentials": token},
                "tls_config": {"insecure_skip_verify": True},
            }
        return config


def scraping_token(plane: ControlPlane, namespace: str, account: str = "prometheus") -> str:
    """Make a service account that may read metrics and nothing else; return a token of it."""
    role = f"{namespace}-{account}"
    plane.kubectl("create", "serviceaccount", account, "-n", namespace)
    plane.kubectl("create", "clusterrole", role, "--verb=get", "--non-resource-url=/metrics")
    who = f"--serviceaccount={namespace}:{account}"
    plane.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", who)
    return plane.kubectl("create", "token", account, "-n", namespace).strip()
