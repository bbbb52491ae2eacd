"""Options of the test suite."""

import pytest
from hypothesis import settings

# How long an example takes tells how busy the machine is, and nothing about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write today's answers into transcripts and documents instead of comparing them",
    )
