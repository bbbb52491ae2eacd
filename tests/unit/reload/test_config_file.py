"""A file that changes: looked at twice before it counts, and tried again where that may help."""

import pytest

from scheduler.config.change import Outcome, Result
from scheduler.reload.config_file import ConfigFile


class Site:
    def __init__(self, folder):
        self.path = folder / "config.yaml"
        self.path.write_text("first")
        self.offered = []
        self.result = Result.APPLIED
        self.now = 0.0
        self.file = ConfigFile(self.path, "first", self.offer, clock=lambda: self.now)

    async def offer(self, text):
        self.offered.append(text)
        return Outcome(self.result)

    async def look(self, times=1):
        for _ in range(times):
            self.now += 1.0
            await self.file.read_once()


@pytest.fixture
def site(tmp_path):
    """A file that holds "first", as it did at the start."""
    return Site(tmp_path)


async def test_what_was_there_at_the_start_is_no_news(site):
    await site.look(3)

    assert site.offered == []


async def test_what_is_read_twice_alike_is_offered_once(site):
    site.path.write_text("second")
    await site.look()
    assert site.offered == []

    await site.look(3)
    assert site.offered == ["second"]


async def test_a_text_that_still_changes_is_not_offered(site):
    for text in ("s", "se", "sec"):
        site.path.write_text(text)
        await site.look()

    assert site.offered == []


async def test_what_was_refused_is_offered_again_once_it_changed(site):
    site.result = Result.INVALID
    site.path.write_text("second")
    await site.look(20)
    site.path.write_text("first")
    await site.look(2)

    assert site.offered == ["second", "first"]


async def test_what_may_pass_is_tried_again_now_and_then(site):
    site.result = Result.FORBIDDEN
    site.path.write_text("second")
    await site.look(25)
    assert site.offered == ["second"] * 3

    site.result = Result.APPLIED
    await site.look(30)
    assert site.offered == ["second"] * 4


async def test_a_file_that_is_gone_changes_nothing(site, capsys):
    site.path.unlink()
    await site.look(5)
    assert site.offered == []
    assert capsys.readouterr().out.count("configuration.unreadable") == 1

    site.path.write_text("second")
    await site.look(2)
    assert site.offered == ["second"]
