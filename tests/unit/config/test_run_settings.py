"""Which wins: a flag or the document."""

from scheduler.config.default_plugins import UPSTREAM_POINTS
from scheduler.config.run_settings import RunSettings

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def resolve(**settings):
    return RunSettings(**settings).draft().resolve(UPSTREAM_POINTS)


def test_without_a_document_flags_count():
    found = resolve(kubeconfig="/k", kube_api_qps=-1.0, kube_api_burst=7)

    assert found.client_connection.kubeconfig == "/k"
    assert found.client_connection.qps == -1
    assert found.client_connection.burst == 7
    assert found.ignored_fields == ()


def test_with_a_document_rate_limits_are_its_own():
    text = f"{HEAD}clientConnection: {{qps: 5}}"

    found = resolve(config_text=text, kube_api_qps=9.0, kube_api_burst=9)

    assert (found.client_connection.qps, found.client_connection.burst) == (5, 100)
    assert found.ignored_fields == (
        "--kube-api-qps (the document decides)",
        "--kube-api-burst (the document decides)",
    )


def test_the_kubeconfig_flag_fills_in_where_the_document_names_none():
    silent = resolve(config_text=HEAD, kubeconfig="/flag")
    named = resolve(config_text=f"{HEAD}clientConnection: {{kubeconfig: /doc}}", kubeconfig="/flag")

    assert silent.client_connection.kubeconfig == "/flag"
    assert named.client_connection.kubeconfig == "/doc"
    assert named.ignored_fields == ("--kubeconfig (the document decides)",)


def test_flags_of_the_leader_election_win_over_the_document():
    text = f"{HEAD}leaderElection: {{leaderElect: true, leaseDuration: 20s, resourceName: a}}"

    found = resolve(
        config_text=text, leader_election={"leader_elect": False, "resource_name": "b"}
    ).leader_election

    assert not found.leader_elect
    assert found.lease_duration_seconds == 20
    assert found.resource_name == "b"
