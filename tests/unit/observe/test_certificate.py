"""HTTPS with the operator's certificate or a self-signed one, and authorization over it."""

import asyncio
import ssl

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from hack.certificates import Authority
from scheduler.errors import ConfigurationError
from scheduler.observe.certificate import ServingCertificate, self_signed
from scheduler.observe.health import Endpoint, serve
from scheduler.observe.metrics import Metrics


def endpoint():
    return Endpoint(metrics=Metrics(), configuration=dict)


async def serial(port):
    """Return the certificate that is served."""
    context = ssl._create_unverified_context()
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


async def test_a_self_signed_certificate_serves():
    runner = await serve(endpoint().application(), "127.0.0.1", 0, self_signed())
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/livez"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        assert await answer.text() == "ok"
    await runner.cleanup()


async def test_a_rotated_certificate_is_served_and_half_a_rotation_is_not(tmp_path):
    first = Authority().serving("one")
    paths = first.write(tmp_path, "tls")
    certificate = ServingCertificate(*map(str, paths))
    runner = await serve(endpoint().application(), "127.0.0.1", 0, certificate.context)
    port = runner.addresses[0][1]
    before = await serial(port)
    assert not certificate.reread()

    other = Authority().serving("two")
    paths[0].write_bytes(other.certificate)
    assert not certificate.reread()
    assert await serial(port) == before

    paths[1].write_bytes(other.key)
    assert certificate.reread()
    assert await serial(port) != before
    await runner.cleanup()


def test_files_that_cannot_be_used_are_reported_with_their_flags(tmp_path):
    with pytest.raises(ConfigurationError, match="--tls-cert-file, --tls-private-key-file"):
        ServingCertificate(str(tmp_path / "none"), str(tmp_path / "none"))


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_all_but_health_is_authorized(status):
    asked = []

    async def judge(*question):
        asked.append(question)
        return 200 if question[0] == "good" else status

    async with TestClient(TestServer(endpoint().application(judge))) as client:
        for path in ("/livez", "/healthz/ping", "/readyz"):
            assert (await client.get(path)).status == 200
        assert (await client.get("/elsewhere")).status == 404
        assert not asked
        for path in ("/metrics", "/configz"):
            assert (await client.get(path)).status == status
            good = await client.get(path, headers={"Authorization": "Bearer good"})
            assert good.status == 200
        assert asked[:2] == [("", "get", "/metrics"), ("good", "get", "/metrics")]
