"""Explains one pod: reads cluster and pod, runs the cycle, returns the document."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.config.run_settings import RunSettings
from scheduler.cycle.explaining import explain
from scheduler.cycle.scheduling import Attempt
from scheduler.errors import ConfigurationError
from scheduler.explain import cluster, completion, trust
from scheduler.explain.cluster_state import ClusterState
from scheduler.explain.document import ExplanationContext, ExplanationDocument, write_document
from scheduler.explain.dump import NamedText, documents, missing_kinds, read_dump
from scheduler.framework.plugin import needs_of
from scheduler.framework.profile import Profile, needs_of_all
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import load_credentials
from scheduler.kube.decode import ObjectDecoder, Unreadable
from scheduler.kube.rate_limit import RateLimiter
from scheduler.kube.watched import PODS, PRIORITY_CLASSES, Watched, watched_for
from scheduler.model.pod import Pod
from scheduler.out_of_tree.loading import build_profiles, out_of_tree_plugins
from scheduler.out_of_tree.stall_timer import PluginTimeout, StallTimer
from scheduler.plugins.node_trust import NodeTrust
from scheduler.version import __version__

USER_AGENT: Final = f"py-scheduler/{__version__} explain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """The pod to explain, and where to find it.

    Args:
        name: The pod's name; empty where it comes with *manifest*.
        namespace: Its namespace; empty for the manifest's own, else ``default``.
        manifest: A pod that does not exist yet.
        snapshots: A dump of a cluster; none to ask the API server.
        config: The text of a KubeSchedulerConfiguration; None for the defaults.
        profile: The scheduler name of a profile, instead of the one that the pod names.
        kubeconfig: Where the credentials are; empty for the usual places.
        context: The context of the kubeconfig; empty for its own.
    """

    name: str = ""
    namespace: str = ""
    manifest: NamedText | None = None
    snapshots: tuple[NamedText, ...] = ()
    config: str | None = None
    profile: str = ""
    kubeconfig: str = ""
    context: str = ""


def explain_pod(request: ExplainRequest) -> ExplanationDocument:
    """Return the explanation of what would be decided.

    Raises:
        ConfigurationError: If the request, a file or the configuration cannot be used.
        ApiError: If a request to the API server fails.
    """
    settings = RunSettings(
        config_text=request.config, kubeconfig=request.kubeconfig, context=request.context
    )
    # Nothing is bound here, so profiles may have the names of the cluster's own scheduler.
    configuration, profiles = build_profiles(settings.draft(), replace_default_scheduler=True)
    watched = watched_for(needs_of_all(profiles.values()))
    if request.snapshots:
        subject = _from_dump(request, watched)
    else:
        kubeconfig = configuration.client_connection.kubeconfig
        subject = asyncio.run(_from_cluster(request, watched, kubeconfig))
    for extender in configuration.extenders:
        subject.notes.append(f"extender {extender.url_prefix} was not asked")
    profile = _choose_profile(request, profiles, subject)
    return _explain(profile, profiles, watched, subject)


@dataclass(slots=True)
class _Subject:
    """The pod to explain and the cluster's state; *now* is the time of that, in Unix seconds."""

    pod: Pod
    state: ClusterState
    completed: list[str]
    notes: list[str]
    now: float


def _explain(
    profile: Profile,
    profiles: Mapping[str, Profile],
    watched: tuple[Watched[Any], ...],
    subject: _Subject,
) -> ExplanationDocument:
    state, pod = subject.state, subject.pod
    state.remove(pod)
    if pod.node_name:
        subject.notes.append(
            f"the pod is on {pod.node_name} already; explained as if it were still pending"
        )
        pod = replace(pod, spec=replace(pod.spec, node_name=""))
    if pod.terminating:
        subject.notes.append("the pod is being deleted; a scheduler would skip it")
    if any(plugin.name == NodeTrust.name for plugin in profile.filter):
        ledger = trust.rebuild_ledger(
            state.cache, state.rejected_by_kubelet, profiles.keys(), subject.now
        )
        subject.notes.extend(trust.notes(state.cache, ledger, pod, subject.now))
    nodes = state.cache.view()
    timer = StallTimer()
    timer.install()
    plugin_timeout = PluginTimeout(out_of_tree_plugins(profile), timer)
    attempt = Attempt(profile, pod, nodes, state.nominated(), observer=plugin_timeout)
    context = ExplanationContext(
        len(nodes),
        subject.completed,
        missing_kinds(state, watched, _readers(profile)),
        [*subject.notes, *(f"left out, since unreadable: {each}" for each in state.unreadable)],
    )
    return write_document(profile, explain(attempt), context)


def _readers(profile: Profile) -> dict[str, list[str]]:
    """Return the plugins that read each resource; pods and nodes are read by all."""
    readers: dict[str, list[str]] = {}
    for plugin in profile.plugins:
        for need in needs_of(plugin):
            readers.setdefault(need, []).append(plugin.name)
    return readers


def _choose_profile(
    request: ExplainRequest, profiles: Mapping[str, Profile], subject: _Subject
) -> Profile:
    named = subject.pod.spec.scheduler_name
    if request.profile:
        if request.profile not in profiles:
            raise ConfigurationError(
                f"--profile: there is no profile {request.profile}; "
                f"the configuration has {', '.join(profiles)}"
            )
        return profiles[request.profile]
    if named in profiles:
        return profiles[named]
    first = next(iter(profiles.values()))
    subject.notes.append(
        f"the pod names the scheduler {named}, which is no profile here; "
        f"explained as if it named {first.scheduler_name}"
    )
    return first


# Where pod and cluster come from.


def _from_dump(request: ExplainRequest, watched: tuple[Watched[Any], ...]) -> _Subject:
    wanted = {each.resource: each for each in (*watched, PRIORITY_CLASSES)}
    state = read_dump(request.snapshots, wanted.values())
    if request.manifest is None:
        return _known(request, state, "in the snapshot", state.newest)
    given = _manifest(request.manifest, request.namespace)
    completed, done = completion.complete(given, request.namespace, state.priority_classes)
    pod = _decode(completed, request.manifest[0])
    return _Subject(pod, state, done, [completion.NOT_IMITATED], state.newest)


async def _from_cluster(
    request: ExplainRequest, watched: tuple[Watched[Any], ...], kubeconfig: str
) -> _Subject:
    credentials = await load_credentials(kubeconfig or None, context=request.context or None)
    async with ApiClient(credentials, limiter=RateLimiter(-1), user_agent=USER_AGENT) as client:
        if request.manifest is None:
            state = await cluster.read_cluster(client, watched)
            return _known(request, state, "in the cluster", time.time())
        # First, since the long lists are of no use if the API server rejects the pod.
        given = _manifest(request.manifest, request.namespace)
        completed, done = await cluster.complete(client, given, request.namespace)
        state = await cluster.read_cluster(client, watched)
        notes = ["completed by the API server, by a dry run"]
        pod = _decode(completed, request.manifest[0])
        return _Subject(pod, state, done, notes, time.time())


def _known(request: ExplainRequest, state: ClusterState, where: str, now: float) -> _Subject:
    key = f"{request.namespace or 'default'}/{request.name}"
    pod = state.pods.get(key)
    if pod is None and key in state.ended:
        raise ConfigurationError(
            f"pod {key} is over ({state.ended[key]}): it will not be scheduled"
        )
    if pod is None:
        raise ConfigurationError(
            f"there is no pod {key} {where}; name its namespace with -n, or give a manifest with -f"
        )
    if pod.malformed:
        raise ConfigurationError(f"pod {key} cannot be read: {pod.malformed}")
    return _Subject(pod, state, [], [], now)


def _manifest(text: NamedText, namespace: str) -> dict[str, Any]:
    """Return the one pod that *text* holds."""
    name, _ = text
    found = list(documents(text))
    if len(found) != 1 or found[0].get("kind") != "Pod":
        kinds = ", ".join(str(each.get("kind")) for each in found)
        inside = "; write its spec.template as a Pod" if _has_template(found) else ""
        raise ConfigurationError(f"{name}: must hold one Pod and nothing else, not {kinds}{inside}")
    pod = found[0]
    # Decoded once as it is, to report fields of wrong types; its name may still be generated.
    unnamed = {"name": "unnamed", **(pod["metadata"] if _is_map(pod, "metadata") else {})}
    own = _decode({**pod, "metadata": unnamed}, name).namespace
    if namespace and own and own != namespace:
        raise ConfigurationError(f"{name}: the pod's namespace is {own}, not {namespace}")
    return pod


def _has_template(found: Sequence[Mapping[str, Any]]) -> bool:
    return len(found) == 1 and _is_map(found[0], "spec") and "template" in found[0]["spec"]


def _is_map(document: Mapping[str, Any], field: str) -> bool:
    return isinstance(document.get(field), dict)


def _decode(completed: Mapping[str, Any], where: str) -> Pod:
    raw = msgspec.Raw(msgspec.json.encode(completed))
    pod = ObjectDecoder(PODS.with_annotations()).item(raw)
    problem = pod.problem if isinstance(pod, Unreadable) else pod.malformed
    if problem:
        raise ConfigurationError(f"{where}: {problem}")
    assert isinstance(pod, Pod)
    return pod
