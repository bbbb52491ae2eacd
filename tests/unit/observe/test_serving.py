"""The endpoint by the flags: its address, and whose requests are allowed."""

from dataclasses import replace

import aiohttp
import pytest

from hack.ports import PortClaims
from scheduler.config.run_settings import RunSettings
from scheduler.errors import ConfigurationError
from scheduler.observe.health import Endpoint
from scheduler.observe.metrics import Metrics
from scheduler.observe.serving import Serving

PLAIN = RunSettings(bind_address="127.0.0.1", insecure_metrics=True)


@pytest.fixture
def port():
    claims = PortClaims()
    yield claims.claim()
    claims.release()


async def refuse(*question):
    return 403


def serving(settings):
    return Serving(settings, Endpoint(Metrics(), dict), refuse)


async def status(url):
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        return answer.status


async def test_nothing_is_served_at_port_0():
    nothing = serving(replace(PLAIN, port=0))

    await nothing.open()
    await nothing.keep_certificate_fresh()
    await nothing.close()


async def test_insecure_metrics_are_served_to_all(port):
    open_to_all = serving(replace(PLAIN, port=port))

    await open_to_all.open()
    assert await status(f"http://127.0.0.1:{port}/metrics") == 200
    await open_to_all.close()


async def test_without_the_flag_tls_and_authorization_apply(port):
    guarded = serving(replace(PLAIN, port=port, insecure_metrics=False))

    await guarded.open()
    assert await status(f"https://127.0.0.1:{port}/healthz") == 200
    assert await status(f"https://127.0.0.1:{port}/metrics") == 403
    await guarded.close()


async def test_a_certificate_that_cannot_be_used_is_reported_with_its_flags(port, tmp_path):
    none = str(tmp_path / "none")
    settings = replace(PLAIN, port=port, insecure_metrics=False)

    with pytest.raises(ConfigurationError, match="--tls-cert-file"):
        await serving(replace(settings, tls_cert_file=none, tls_private_key_file=none)).open()
