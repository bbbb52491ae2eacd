"""What this process may do, by SelfSubjectAccessReview: nothing is tried out or changed."""

import asyncio
from typing import Final

import msgspec

from scheduler.errors import ApiError
from scheduler.kube.permissions import Permission
from scheduler.kube.requests import Requests


class _Status(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Status


_decode = msgspec.json.Decoder(_Review).decode
_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def granted(requests: Requests, needed: Permission) -> tuple[str, ...]:
    """Return the verbs of *needed* that we may use.

    Raises:
        ApiError: If the API server, or a proxy in its place, gives no usable answer.
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
    answer = await requests.post(_REVIEW, msgspec.json.encode(body))
    try:
        return _decode(answer).status.allowed
    except msgspec.DecodeError as problem:
        raise ApiError(f"POST {_REVIEW}: the answer cannot be read: {problem}") from None
