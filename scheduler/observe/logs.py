"""Logs: JSON lines for machines, a readable console for people, the same events in both.

Write ``log.info(event_names.POD_BOUND, pod=pod.key, node=node)``: a fixed name and fields. Lines of
libraries that use the standard logging module come out in the same form.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any, Final, TextIO, cast

import msgspec
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "json", "console")
_QUIET: Final = ("aiohttp.access", "asyncio", "kopf", "kubernetes", "urllib3")
_SILENT: Final = ("kopf._core.reactor.orchestration", "kopf._core.reactor.running")
"""Loggers that write a traceback when a task of kopf ends, as when a resource is deleted. The same
error is raised as well, and scheduler.crds.watching logs it in one line."""
_FIRST: Final = ("time", "level", "event")


def configure(level: str, style: str, stream: TextIO) -> None:
    """Send every log line from now on to *stream*.

    Args:
        level: One of LEVELS; less severe lines are not even built.
        style: One of FORMATS.
        stream: Receives the lines: standard error usually.
    """
    severity = logging.getLevelNamesMapping()[level.upper()]
    readable = is_readable(style, stream, os.environ)
    structlog.configure(
        processors=[*_common(), *_final(readable)],
        wrapper_class=structlog.make_filtering_bound_logger(severity),
        logger_factory=structlog.WriteLoggerFactory(stream),
        # A cached logger would save 3 µs a line, but keep the configuration of its first line.
        cache_logger_on_first_use=False,
    )
    _adopt_standard_logging(severity, readable, stream)


def get_logger(**fields: object) -> structlog.typing.FilteringBoundLogger:
    """Return a logger; each of its lines has *fields*."""
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger(**fields))


def is_readable(style: str, stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Tell whether people read *stream*: *style* says so, or it is a terminal outside a pod."""
    if style == "auto":
        return stream.isatty() and "KUBERNETES_SERVICE_HOST" not in environment
    return style == "console"


def _common() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]


def _final(readable: bool) -> list[Processor]:
    if readable:
        return [structlog.dev.ConsoleRenderer(timestamp_key="time")]
    return [structlog.processors.format_exc_info, _render_json]


def _render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return one line of JSON: time, level and event come first, then the fields as given."""
    leading = {name: event.pop(name) for name in _FIRST if name in event}
    return msgspec.json.encode({**leading, **event}, enc_hook=str).decode()


def _adopt_standard_logging(severity: int, readable: bool, stream: TextIO) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_common()],
            processors=[_without_record, *_final(readable)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(severity)
    logging.captureWarnings(capture=True)
    for name in _QUIET:
        # Below a warning they only repeat what our own events say about the same requests.
        logging.getLogger(name).setLevel(max(severity, logging.WARNING))
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _without_record(_logger: WrappedLogger, _method: str, event: EventDict) -> dict[str, Any]:
    return {name: value for name, value in event.items() if not name.startswith("_")}
