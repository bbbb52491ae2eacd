"""The endpoint answers exactly as kube-scheduler does."""

import socket

import pytest
from aiohttp.test_utils import TestClient, TestServer

from scheduler.errors import ConfigurationError
from scheduler.observe.health import Endpoint, ping, serve
from scheduler.observe.metrics import Metrics


def broken() -> str:
    return "handlers are not fully synchronized"


def raising() -> str:
    raise RuntimeError("oh")


@pytest.fixture
async def client():
    endpoint = Endpoint(
        metrics=Metrics(),
        configuration=lambda: {"kind": "KubeSchedulerConfiguration"},
        healthz={"leaderElection": ping},
        readyz={"leaderElection": ping, "shutdown": ping, "sched-handler-sync": broken},
    )
    async with TestClient(TestServer(endpoint.application())) as client:
        yield client


UNMATCHED = 'warn: some health checks cannot be excluded: no matches for "a","b"\n'
READY = "[+]leaderElection ok\n[+]shutdown ok\n"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, "ok"),
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/healthz?verbose=1", 200, "[+]leaderElection ok\nhealthz check passed\n"),
        ("/healthz/leaderElection", 200, "ok"),
        ("/healthz/ping", 404, "404 page not found\n"),
        (
            "/readyz",
            500,
            f"{READY}[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
        ),
        ("/readyz?exclude=sched-handler-sync", 200, "ok"),
        (
            "/readyz?verbose&exclude=sched-handler-sync",
            200,
            f"{READY}[+]sched-handler-sync excluded: ok\nreadyz check passed\n",
        ),
        (
            "/livez?verbose&exclude=b&exclude=a",
            200,
            f"[+]ping ok\n{UNMATCHED}livez check passed\n",
        ),
        (
            "/readyz/sched-handler-sync",
            500,
            "internal server error: handlers are not fully synchronized\n",
        ),
        ("/readyz/shutdown", 200, "ok"),
    ],
)
async def test_probes(client, path, status, body):
    async with client.get(path) as response:
        assert (response.status, await response.text()) == (status, body)
        assert response.content_type == "text/plain"
        assert response.headers["Cache-Control"] == "no-cache, private"


async def test_a_check_that_raises_has_failed():
    endpoint = Endpoint(Metrics(), dict, livez={"odd": raising})

    async with (
        TestClient(TestServer(endpoint.application())) as client,
        client.get("/livez") as response,
    ):
        assert response.status == 500


async def test_metrics_are_text_and_openmetrics_on_demand(client):
    async with client.get("/metrics") as plain:
        assert plain.headers["Content-Type"].startswith("text/plain; version=")
        assert "# TYPE scheduler_pending_pods gauge" in await plain.text()
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with client.get("/metrics", headers=accept) as negotiated:
        assert negotiated.content_type == "application/openmetrics-text"
        assert (await negotiated.text()).endswith("# EOF\n")


async def test_configuration_is_shown(client):
    async with client.get("/configz") as response:
        found = await response.json()

    assert found == {"componentconfig": {"kind": "KubeSchedulerConfiguration"}}


async def test_it_is_served_until_cleaned_up():
    runner = await serve(Endpoint(Metrics(), dict).application(), "127.0.0.1", 0)
    host, port = runner.addresses[0]

    with socket.create_connection((host, port)):
        pass
    await runner.cleanup()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port))


async def test_a_port_in_use_is_one_clear_error():
    application = Endpoint(Metrics(), dict).application
    runner = await serve(application(), "127.0.0.1", 0)
    port = runner.addresses[0][1]

    with pytest.raises(ConfigurationError) as caught:
        await serve(application(), "127.0.0.1", port)

    await runner.cleanup()
    assert caught.value.problems == (
        f"--port: {port} is in use at 127.0.0.1; choose another one, or 0 to serve nothing",
    )


async def test_an_address_of_another_machine_is_one_clear_error():
    with pytest.raises(ConfigurationError, match=r"--bind-address: 192.0.2.1 is no address of"):
        await serve(Endpoint(Metrics(), dict).application(), "192.0.2.1", 0)
