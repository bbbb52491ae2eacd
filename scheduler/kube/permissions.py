"""What the scheduler must be allowed to do: one row for each resource, derived from its profiles.

What is read follows from what is watched, which follows from what plugins need; what is written is
listed here. The chart's ClusterRole is made from these rows, and ``py-scheduler check`` compares
them with what the API server grants, so that the two cannot differ.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.config.resource import GROUP, PLURAL, VERSION
from scheduler.framework.plugin import Plugin, needs_of, patches_of
from scheduler.framework.profile import Profile, needs_of_all
from scheduler.kube.watched import Watched, resource_for, watched_for

_LIST_PATH: Final = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/(?P<plural>.+)")
_READ: Final = ("list", "watch")


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on a resource, in all namespaces unless it says otherwise.

    Args:
        group: The API group; empty for the core.
        version: The version that we use; RBAC has no versions, discovery has.
        resource: Its plural, with a subresource behind a slash.
        why: What it is for, as a comment.
        namespace: The only namespace.
        name: The only object.
        optional: Pods are scheduled without it as well, with fewer features.
    """

    group: str
    version: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    namespace: str = ""
    name: str = ""
    optional: bool = False

    @property
    def rule(self) -> dict[str, Any]:
        """The rule of a Role or ClusterRole that grants it."""
        named = {"resourceNames": [self.name]} if self.name else {}
        return {
            "apiGroups": [self.group],
            "resources": [self.resource],
            **named,
            "verbs": list(self.verbs),
        }

    @property
    def kubectl_name(self) -> str:
        """The resource as kubectl spells it, as in ``leases.coordination.k8s.io``."""
        plural, slash, subresource = self.resource.partition("/")
        return f"{plural}.{self.group}".rstrip(".") + slash + subresource


def cluster_permissions(profiles: Collection[Profile]) -> tuple[Permission, ...]:
    """Return the least that *profiles* need in all namespaces."""
    return tuple(_merged([*_reads(profiles), *_writes(profiles)]))


def lease_permissions(namespace: str, name: str) -> tuple[Permission, ...]:
    """Return what the leader election needs; RBAC cannot limit ``create`` to one name."""
    why = "Leader election."
    lease = ("coordination.k8s.io", "v1", "leases")
    return (
        Permission(*lease, ("create",), why, namespace),
        Permission(*lease, ("get", "update", "watch"), why, namespace, name),
    )


def resource_permissions(name: str) -> tuple[Permission, ...]:
    """Return what it takes to follow the SchedulerConfiguration *name* and to write its status."""
    return (
        Permission(GROUP, VERSION, PLURAL, _READ, "The configuration is read from it.", name=name),
        Permission(
            GROUP, VERSION, f"{PLURAL}/status", ("patch",), "Its status is written.", name=name
        ),
    )


def review_permissions() -> tuple[Permission, ...]:
    """Return what serving metrics over HTTPS needs (scheduler.kube.reviews)."""
    why = "The API server decides who may read metrics."
    return (
        Permission("authentication.k8s.io", "v1", "tokenreviews", ("create",), why),
        Permission("authorization.k8s.io", "v1", "subjectaccessreviews", ("create",), why),
    )


def _reads(profiles: Collection[Profile]) -> Iterable[Permission]:
    readers = _by_resource(profiles, needs_of)
    for each in watched_for(needs_of_all(profiles)):
        names = readers.get(str(each.resource), ())
        why = f"Read by {', '.join(names)}." if names else "Read for every decision."
        yield _permission_on(each, _READ, why, optional=each.optional)


def _by_resource(
    profiles: Iterable[Profile], names_of: Callable[[Plugin], Iterable[str]]
) -> Mapping[str, list[str]]:
    """Return the plugins that name each resource, by its name."""
    found: dict[str, list[str]] = {}
    for plugin in (plugin for profile in profiles for plugin in profile.plugins):
        for resource in sorted(names_of(plugin)):
            names = found.setdefault(resource, [])
            if plugin.name not in names:
                names.append(plugin.name)
    return found


def _permission_on(
    watched: Watched[Any], verbs: tuple[str, ...], why: str, *, optional: bool = False
) -> Permission:
    found = _LIST_PATH.fullmatch(watched.path)
    assert found is not None, watched.path
    group, version, plural = found["group"] or "", found["version"], found["plural"]
    return Permission(group, version, plural, verbs, why, optional=optional)


def _writes(profiles: Collection[Profile]) -> Iterable[Permission]:
    yield Permission("", "v1", "pods", ("get",), "A pod is read back if its binding got no answer.")
    yield Permission("", "v1", "pods/binding", ("create",), "Pods are bound.")
    yield Permission(
        "",
        "v1",
        "pods/status",
        ("patch",),
        "The PodScheduled condition and the nominated node are written.",
    )
    for resource, names in _by_resource(profiles, patches_of).items():
        why = f"Patched by {', '.join(names)}."
        yield _permission_on(resource_for(resource), ("patch",), why)
    if any(profile.post_filter for profile in profiles):
        yield Permission("", "v1", "pods", ("delete",), "Victims of preemption are deleted.")
    yield Permission(
        "events.k8s.io",
        "v1",
        "events",
        ("create", "patch"),
        "Events are written; a patch counts a repeated one.",
        optional=True,
    )


def _merged(permissions: Iterable[Permission]) -> Iterable[Permission]:
    """Return one permission for each resource, in order, with all its verbs and reasons."""
    merged: dict[tuple[str, str], Permission] = {}
    for each in permissions:
        key = (each.group, each.resource)
        known = merged.get(key, each)
        merged[key] = Permission(
            each.group,
            each.version,
            each.resource,
            tuple(sorted({*known.verbs, *each.verbs})),
            known.why if each.why in known.why else f"{known.why} {each.why}",
            optional=known.optional and each.optional,
        )
    return merged.values()
