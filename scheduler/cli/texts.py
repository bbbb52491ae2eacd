"""Reads files and standard input as text."""

import sys
from pathlib import Path
from typing import Final

from scheduler.config.run_settings import STANDARD_INPUT
from scheduler.errors import ConfigurationError

_GZIP: Final = b"\x1f\x8b"


def read_text(flag: str, path: str) -> str:
    """Return the content of the file *path*, or standard input for ``-``.

    Raises:
        ConfigurationError: If it cannot be read; the message begins with *flag*.
    """
    try:
        content = sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()
        if content.startswith(_GZIP):
            raise ConfigurationError(f"{flag}: {path} is compressed; unpack it first, as by zcat")
        return content.decode()
    except OSError as error:
        raise ConfigurationError(f"{flag}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{flag}: {path} is no UTF-8 text") from error
