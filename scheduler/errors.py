"""Every exception that py-scheduler raises on purpose.

::

    SchedulerError
    ├── ConfigurationError      what the operator wrote cannot be used; names the field
    ├── MalformedObject         what the API server holds cannot be read; names the field
    ├── PluginError             a plugin raised, stalled or returned an invalid value; names it
    ├── StaleView               a NodeTable was used after newer facts were applied
    └── ApiError                a request failed
        ├── Conflict            409: another write came first
        ├── NotFound            404
        ├── Forbidden           403: a permission is missing; names verb and resource
        ├── Unauthorized        401: the credentials are not accepted
        ├── Gone                410: the requested history is compacted
        ├── Throttled           429: try again after a while
        ├── Rejected            any other 4xx: repeating it will not help
        ├── Fenced              nothing was sent: another process may lead by now
        ├── Abandoned           not tried again: the result is not wanted any more
        └── Unreachable         no answer, or a 5xx: it is unknown whether it took effect
"""


class SchedulerError(Exception):
    """The root of the tree."""


class ConfigurationError(SchedulerError):
    """What the operator wrote cannot be used.

    Args:
        problems: One line for each problem, each beginning with the path of its field.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class MalformedObject(SchedulerError):  # noqa: N818 - named for the object, as the field does
    """A Kubernetes object holds a value that cannot be read.

    Args:
        field: The path of the field inside the object, as in ``status.allocatable[cpu]``.
        problem: What is wrong with it.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class PluginError(SchedulerError):
    """A plugin raised, stalled or returned an invalid value.

    Args:
        plugin: The plugin's name.
        problem: What it did.
    """

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(f"plugin {plugin!r} {problem}")
        self.plugin = plugin
        self.problem = problem


class StaleView(SchedulerError):  # noqa: N818 - a state, not a mistake of the reader
    """A NodeTable was used after the loop had applied newer facts."""


class ApiError(SchedulerError):
    """A request to the API server failed.

    Args:
        message: What happened, in one line that names the request.
        status: The HTTP status, or 0 where there was no answer.
        reason: The machine-readable reason of the API server's Status object.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Conflict(ApiError):  # noqa: N818 - named for the HTTP answer
    """409: another write came first."""


class NotFound(ApiError):  # noqa: N818 - named for the HTTP answer
    """404: no such object."""


class Forbidden(ApiError):  # noqa: N818 - named for the HTTP answer
    """403: a permission is missing; the message names verb and resource."""


class Unauthorized(ApiError):  # noqa: N818 - named for the HTTP answer
    """401: the credentials are not accepted."""


class Gone(ApiError):  # noqa: N818 - named for the HTTP answer
    """410: the requested history is compacted."""


class Throttled(ApiError):  # noqa: N818 - named for the HTTP answer
    """429: nothing was done; the server names the time of the next try.

    Args:
        retry_after_seconds: The Retry-After header, or a second where it is absent.
    """

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message, status=429, reason="TooManyRequests")
        self.retry_after_seconds = retry_after_seconds


class Rejected(ApiError):  # noqa: N818 - named for the HTTP answer
    """Any other 4xx, at the stage of a request: the server refused it; a retry is of no use."""


class Fenced(ApiError):  # noqa: N818 - named for the condition
    """Nothing was sent: this process may not write any more, since another may lead by now."""


class Abandoned(ApiError):  # noqa: N818 - named for the condition
    """A failed request was not tried again: its result is not wanted any more."""


class Unreachable(ApiError):  # noqa: N818 - named for the condition
    """No answer or a 5xx: it is unknown whether the request took effect."""
