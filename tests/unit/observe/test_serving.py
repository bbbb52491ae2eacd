"""The endpoint by the flags: its address, whose requests are allowed, and its own thread."""

import asyncio
import threading
import urllib.request
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest

from hack.certificates import Authority
from hack.ports import PortClaims
from scheduler.config.run_settings import RunSettings
from scheduler.errors import ConfigurationError
from scheduler.observe import families
from scheduler.observe import serving as serving_module
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


@asynccontextmanager
async def judges():
    yield refuse


def serving(settings, metrics=None):
    return Serving(settings, Endpoint(metrics or Metrics(), dict), judges)


async def status(url):
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        return answer.status


async def test_nothing_is_served_at_port_0():
    nothing = serving(replace(PLAIN, port=0))

    await nothing.open()
    await nothing.watch()
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


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return answer.read().decode()


async def test_gauges_are_read_by_the_loop_that_owns_them(port):
    metrics, threads = Metrics(), []

    def read():
        threads.append(threading.get_ident())
        return {(): len(threads)}

    metrics.read(families.TASKS, read)
    served = serving(replace(PLAIN, port=port), metrics)
    await served.open()
    shown = [await asyncio.to_thread(scrape, port) for _ in range(2)]
    await served.close()

    assert [families.TASKS.name + f" {n}.0" in each for n, each in enumerate(shown, 1)] == [
        True
    ] * 2
    assert set(threads) == {threading.get_ident()}


async def test_a_long_step_of_the_loop_delays_neither_probes_nor_scrapes(port, monkeypatch):
    monkeypatch.setattr(serving_module, "REFRESH_SECONDS", 0.01)
    metrics = Metrics()
    metrics.read(families.TASKS, lambda: {(): 7})
    served = serving(replace(PLAIN, port=port), metrics)
    await served.open()
    await asyncio.to_thread(scrape, port)
    metrics.read(families.TASKS, lambda: {(): 8})
    answers = []

    def ask():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=30) as answer:
            answers.append(answer.read())
        answers.append(scrape(port))

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()  # the loop runs nothing until both are answered
    await served.close()

    assert answers[0] == b"ok"
    assert families.TASKS.name + " 7.0" in answers[1], "the gauges of the last scrape"


async def test_scraping_goes_on_while_series_are_added(port):
    metrics = Metrics()
    served = serving(replace(PLAIN, port=port), metrics)
    await served.open()
    async with asyncio.TaskGroup() as group:
        scraping = group.create_task(asyncio.to_thread(scrape, port))
        for count in range(300):
            metrics.observe(families.PLUGIN_DURATION, 0.1, f"plugin {count}", "Filter", "Success")
            metrics.count(families.ATTEMPTS, f"result {count}", "profile")
            await asyncio.sleep(0)
    await served.close()

    assert "scheduler_schedule_attempts_total" in scraping.result()


async def test_what_ends_the_thread_ends_the_process(port, tmp_path):
    """As a defect in what keeps the certificate fresh would."""
    certificate = Authority().serving("one").write(tmp_path, "tls")
    settings = replace(
        PLAIN,
        port=port,
        insecure_metrics=False,
        tls_cert_file=str(certificate[0]),
        tls_private_key_file=str(certificate[1]),
    )

    async def breaks(self):
        raise LookupError("a defect")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving_module.ServingCertificate, "keep_fresh", breaks)
        served = serving(settings)
        await served.open()
        with pytest.raises(ExceptionGroup):
            await served.watch()
        await served.close()
