"""Delegated authentication and authorization of callers, as in kube-scheduler.

Source: ``staging/src/k8s.io/apiserver/pkg/server/options/authorization.go``.
"""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.errors import ApiError
from scheduler.kube.requests import Requests

CACHE_SECONDS: Final = 10.0
_REMEMBERED_MAXIMUM: Final = 1000
_WAITING_MAXIMUM: Final = 100
"""How many callers may wait for the API server; beyond that they get 429, and use no memory."""
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_ANONYMOUS: Final = _User("system:anonymous", groups=("system:unauthenticated",))
_decode_token_review = msgspec.json.Decoder(_TokenReview).decode
_decode_access_review = msgspec.json.Decoder(_AccessReview).decode


class Reviews:
    """Judges callers by TokenReview and SubjectAccessReview; answers are cached for ten seconds.

    A caller without a token is ``system:anonymous`` and may do what the cluster allows everybody.

    Args:
        requests: The API server; with a rate limit of its own, since any caller causes requests.
        clock: Monotonic seconds.
    """

    def __init__(self, requests: Requests, clock: Callable[[], float] = time.monotonic) -> None:
        self._requests = requests
        self._clock = clock
        self._answers: OrderedDict[tuple[bytes, str, str], tuple[float, int]] = OrderedDict()
        self._waiting = 0

    async def judge(self, token: str, verb: str, path: str) -> int:
        """Return the HTTP status for a caller with *token*: 200, 401 or 403.

        Or 500 if the API server gave no answer, and 429 if too many callers wait for one.

        *verb* is that of the request, in lower case, and *path* names no resource.
        """
        # A digest, and not the token itself, which must not stay in memory longer than needed.
        key = hashlib.sha256(token.encode()).digest(), verb, path
        now = self._clock()
        known = self._answers.get(key)
        if known is not None and now < known[0]:
            return known[1]
        if self._waiting == _WAITING_MAXIMUM:
            return 429
        self._waiting += 1
        try:
            status = await self._review(token, verb, path)
        except (ApiError, msgspec.DecodeError):
            return 500
        finally:
            self._waiting -= 1
            assert self._waiting >= 0, "more callers were answered than waited"
        self._answers[key] = now + CACHE_SECONDS, status
        self._answers.move_to_end(key)
        if len(self._answers) > _REMEMBERED_MAXIMUM:
            self._answers.popitem(last=False)
        return status

    async def _review(self, token: str, verb: str, path: str) -> int:
        user = await self._authenticate(token) if token else _ANONYMOUS
        if user is None:
            return 401
        return 200 if await self._may(user, verb, path) else 403

    async def _authenticate(self, token: str) -> _User | None:
        body = _review("authentication.k8s.io/v1", "TokenReview", {"token": token})
        status = _decode_token_review(await self._requests.post(_TOKEN_REVIEWS, body)).status
        return status.user if status.authenticated else None

    async def _may(self, user: _User, verb: str, path: str) -> bool:
        if "system:masters" in user.groups:
            return True
        spec: dict[str, object] = {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        }
        body = _review("authorization.k8s.io/v1", "SubjectAccessReview", spec)
        answer = await self._requests.post(_ACCESS_REVIEWS, body)
        return _decode_access_review(answer).status.allowed


def _review(version: str, kind: str, spec: dict[str, object]) -> bytes:
    return msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
