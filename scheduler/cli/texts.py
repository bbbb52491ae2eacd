"""Files and standard input, read as text."""

import sys
from pathlib import Path

from scheduler.config.run_settings import STANDARD_INPUT
from scheduler.errors import ConfigurationError


def read_text(flag: str, path: str) -> str:
    """Return what the file *path* holds, or standard input for ``-``.

    Raises:
        ConfigurationError: If it cannot be read; the message begins with *flag*.
    """
    try:
        return (
            sys.stdin.read() if path == STANDARD_INPUT else Path(path).read_text(encoding="utf-8")
        )
    except OSError as error:
        raise ConfigurationError(f"{flag}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{flag}: {path} is no UTF-8 text") from error
