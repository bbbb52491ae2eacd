"""Random changes of the configuration under load, in short; ``make reloads`` is the long way."""

from __future__ import annotations

import asyncio

import pytest

from hack.reloads.__main__ import check_replicas, install, replica, uninstall
from hack.reloads.trial import Trial, remove

pytestmark = pytest.mark.integration


def test_forty_changes_under_load_lose_no_pod_and_every_status_is_true(control_plane, namespace):
    kubeconfig = install(control_plane, namespace)
    trial = Trial(control_plane.admin_kubeconfig, namespace, changes=40, seed=7, pause_seconds=0.1)
    try:
        with (
            replica(control_plane, namespace, 1, kubeconfig) as first,
            replica(control_plane, namespace, 2, kubeconfig) as second,
        ):
            for each in (first, second):
                each.wait_for_line("scheduler.started")
            asyncio.run(trial.run())
            wrong = trial.wrong + check_replicas([first, second])
    finally:
        asyncio.run(remove(control_plane.admin_kubeconfig, namespace))
        uninstall(control_plane, namespace)

    assert wrong == []
    assert len(trial.became) == 3  # good ones, mistakes, and what needs a restart
    assert sum(trial.pods.values()) > 100
