"""kopf, embedded: it watches one object, in the event loop of the process.

kopf is made to run a process of its own, which is prevented here. It replaces the process's signal
handlers, so they are installed again. It kills a process that does not end in time, which is
switched off. When it ends it would cancel every task of the event loop, so its tasks are ended one
by one. Its failures are logged, and it is started again after a pause.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import kopf
import msgspec

from scheduler.config.resource import GROUP, PLURAL, VERSION
from scheduler.crds.configuration import ConfigurationResource
from scheduler.crds.status import Seen
from scheduler.errors import ApiError
from scheduler.kube.credentials import Credentials
from scheduler.kube.kopf_session import kopf_session
from scheduler.kube.requests import Requests
from scheduler.observe import event_names
from scheduler.observe.logs import get_logger

_PAUSE_SECONDS: Final = 1.0
_PAUSE_MAXIMUM: Final = 30.0
_AWAITING_SECONDS: Final = 2.0
_SILENCE_SECONDS: Final = 90.0

log = get_logger()


async def watch(
    name: str,
    resource: ConfigurationResource,
    credentials: Credentials,
    requests: Requests,
    listen_to_signals: Callable[[], None],
) -> None:
    """Report everything that happens to the object *name* to *resource*, until cancelled.

    Args:
        name: The object's name.
        resource: Receives its changes.
        credentials: Those of kopf's requests.
        requests: Used to find out whether the API server serves the resource.
        listen_to_signals: Installs the signal handlers of the process again.

    Raises:
        Exception: What *resource* raises, which is a defect of ours. Failures of kopf are logged.
    """
    pause = _PAUSE_SECONDS
    while True:
        await _await_resource(requests)
        started = asyncio.get_running_loop().time()
        # kopf would log what a handler of ours raises, and go on as if the change were handled.
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            await _run_kopf(name, resource, credentials, listen_to_signals, broken)
            why = "it ended"
        except Exception as problem:  # noqa: BLE001 - whatever it is, pods go on being scheduled
            why = f"{type(problem).__name__}: {problem}"
        if broken.done():
            broken.result()
        lasted = asyncio.get_running_loop().time() - started
        pause = _PAUSE_SECONDS if lasted > _PAUSE_MAXIMUM else min(2 * pause, _PAUSE_MAXIMUM)
        log.warning(event_names.CONFIGURATION_WATCH_FAILED, error=why, again_in_seconds=pause)
        await asyncio.sleep(pause)


async def _await_resource(requests: Requests) -> None:
    """Return once the API server serves the resource: kopf discovers it only when it starts."""
    while True:
        try:
            body = await requests.get(f"/apis/{GROUP}/{VERSION}")
            served = msgspec.json.decode(body).get("resources", ())
            if any(each.get("name") == PLURAL for each in served):
                return
        except (ApiError, msgspec.DecodeError):
            pass
        await asyncio.sleep(_AWAITING_SECONDS)


async def _run_kopf(
    name: str,
    resource: ConfigurationResource,
    credentials: Credentials,
    listen_to_signals: Callable[[], None],
    broken: "asyncio.Future[None]",
) -> None:
    tasks = await kopf.spawn_tasks(
        registry=_handlers(name, resource, credentials, broken),
        settings=_settings(name),
        clusterwide=True,
        standalone=True,
        # kopf would make one from the user's name, and a container's UID may have no name.
        identity="py-scheduler",  # type: ignore[arg-type] # its own type is private
    )
    listen_to_signals()
    try:
        await asyncio.wait((*tasks, broken), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception) and not isinstance(end, asyncio.CancelledError):
            raise end


def _settings(name: str) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # no watch on CRDs and namespaces
    settings.posting.enabled = False  # events are written by our own recorder
    settings.process.ultimate_exiting_timeout = None  # no SIGKILL ten minutes after kopf's end
    settings.watching.field_selectors[GROUP, PLURAL] = f"metadata.name={name}"
    settings.watching.inactivity_timeout = _SILENCE_SECONDS
    return settings


def _handlers(
    name: str,
    resource: ConfigurationResource,
    credentials: Credentials,
    broken: "asyncio.Future[None]",
) -> kopf.OperatorRegistry:
    """Return the only handlers: they log in and report the object, and change nothing in it."""
    registry = kopf.OperatorRegistry()
    has_logged_in = False

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        # kopf logs in a second time only after a 401 to the first credentials.
        nonlocal has_logged_in
        if has_logged_in:
            await credentials.reload(credentials.access)
        has_logged_in = True
        return kopf.AiohttpSession(
            server=credentials.access.server, aiohttp_session=kopf_session(credentials)
        )

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def report(type: str | None, body: Mapping[str, Any], **_: Any) -> None:  # noqa: A002 - kopf's
        if body["metadata"]["name"] != name:
            return
        try:
            _report(resource, type, body)
        except Exception as defect:  # noqa: BLE001 - whatever it is, it ends the watch
            if not broken.done():
                broken.set_exception(defect)

    return registry


def _report(resource: ConfigurationResource, type_: str | None, body: Mapping[str, Any]) -> None:
    if type_ == "DELETED":
        resource.on_deleted(body["metadata"]["uid"])
    else:
        resource.on_changed(_seen(body))


def _seen(body: Mapping[str, Any]) -> Seen:
    document = (body.get("spec") or {}).get("configuration")
    return Seen(
        uid=body["metadata"]["uid"],
        generation=body["metadata"].get("generation", 0),
        text=msgspec.json.encode(_plain(document)).decode(),
        status=_plain(body.get("status") or {}),
    )


def _plain(value: Any) -> Any:
    """Return *value* without kopf's views of it."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
