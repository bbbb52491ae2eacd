"""Transcripts: conversations with a room, one line a step.

::

    # What the conversation shows.
    at 0.0s  add web-1 priority=10  -> web-1: active

Everything left of the arrow is said, everything right of it is answered. ``pytest --rewrite``
writes today's answers into the files; the change is then read in the diff.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

Speak = Callable[[float, str], str]
"""Answers a command given at a time."""

_STEP = re.compile(r"at (?P<now>[0-9.]+)s\s+(?P<command>.*?)\s*(?:->.*)?")


def render(text: str, speak: Speak) -> str:
    """Return the transcript *text* with the answers that *speak* gives now."""
    steps = [_STEP.fullmatch(line) for line in text.splitlines()]
    times = _width(steps, "now") + len("s")
    commands = _width(steps, "command")
    lines = [
        f"at {step['now'] + 's':<{times}}  {step['command']:<{commands}}  -> {_answer(step, speak)}"
        if step
        else line
        for step, line in zip(steps, text.splitlines(), strict=True)
    ]
    return "\n".join(lines) + "\n"


def _width(steps: list[re.Match[str] | None], column: str) -> int:
    return max((len(step[column]) for step in steps if step), default=0)


def _answer(step: re.Match[str], speak: Speak) -> str:
    return speak(float(step["now"]), step["command"])


@pytest.fixture
def rehearse(request: pytest.FixtureRequest) -> Callable[[Path, Speak], None]:
    """Hold a conversation again, and compare it with what is written."""

    def rehearse(script: Path, speak: Speak) -> None:
        written = script.read_text()
        spoken = render(written, speak)
        if request.config.getoption("--rewrite"):
            script.write_text(spoken)
        else:
            assert spoken.splitlines() == written.splitlines()

    return rehearse
