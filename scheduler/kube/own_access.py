"""Asks the API server what we ourselves may do: nothing is tried out, and nothing is changed."""

import asyncio
from typing import Final

import msgspec

from scheduler.kube.permissions import Permission
from scheduler.kube.requests import Requests

_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def granted(requests: Requests, needed: Permission) -> tuple[str, ...]:
    """Return the verbs of *needed* that we may use.

    Raises:
        ApiError: If the API server does not tell.
    """
    may = await asyncio.gather(*(_may(requests, needed, verb) for verb in needed.verbs))
    return tuple(verb for verb, allowed in zip(needed.verbs, may, strict=True) if allowed)


async def _may(requests: Requests, needed: Permission, verb: str) -> bool:
    resource, _, subresource = needed.resource.partition("/")
    attributes = {
        "group": needed.group,
        "version": needed.version,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
        "namespace": needed.namespace,
        "name": needed.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = msgspec.json.decode(await requests.post(_REVIEW, msgspec.json.encode(body)))
    allowed: bool = answer["status"]["allowed"]
    return allowed
