"""Watches the configuration's object, offers it and writes its status, in three tasks."""

import asyncio
from collections.abc import Callable
from importlib import import_module

from scheduler.crds.configuration import ConfigurationResource
from scheduler.kube.credentials import Credentials
from scheduler.kube.requests import Requests


async def follow(
    name: str,
    resource: ConfigurationResource,
    credentials: Credentials,
    requests: Requests,
    listen_to_signals: Callable[[], None],
) -> None:
    """Watch the object *name* and write the outcome into its status, until cancelled.

    Args:
        name: The object's name.
        resource: Receives its changes, offers its document, and writes its status.
        credentials: Those of the watch.
        requests: Used to find out whether the API server serves the resource.
        listen_to_signals: Installs the signal handlers of the process again, which kopf replaces.

    Raises:
        ExceptionGroup: If one of the three fails, which is a defect of ours.
    """
    # Imported here and in a thread: that takes half a second, and few processes need kopf.
    watching = await asyncio.to_thread(import_module, "scheduler.crds.watching")
    async with asyncio.TaskGroup() as group:
        group.create_task(resource.consider())
        group.create_task(resource.write())
        group.create_task(watching.watch(name, resource, credentials, requests, listen_to_signals))
