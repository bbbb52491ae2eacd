"""Following the configuration's object: it is watched, considered and answered all at once."""

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
    """Watch the object *name* and write down what came of it, until cancelled.

    Args:
        name: The object's name.
        resource: Hears of it, offers what it wants, and writes its status.
        credentials: As whom it is watched.
        requests: Where we ask whether the resource is there.
        listen_to_signals: Takes the signals of the process back.

    Raises:
        ExceptionGroup: Of what one of these breaks by, which is a defect of ours.
    """
    # Late and beside the loop: importing kopf takes half a second, and few need it.
    watching = await asyncio.to_thread(import_module, "scheduler.crds.watching")
    async with asyncio.TaskGroup() as group:
        group.create_task(resource.consider())
        group.create_task(resource.write())
        group.create_task(watching.watch(name, resource, credentials, requests, listen_to_signals))
