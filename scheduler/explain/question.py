"""From a question on the command line to its answer."""

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
from scheduler.explain.document import Circumstances, Document, document
from scheduler.explain.dump import Text, documents, missing_kinds, read_dump
from scheduler.explain.picture import Picture
from scheduler.framework.plugin import needs_of
from scheduler.framework.profile import Profile, needs_of_all
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import load_credentials
from scheduler.kube.decode import Decoder, Unreadable
from scheduler.kube.rate_limit import RateLimiter
from scheduler.kube.watched import PODS, PRIORITY_CLASSES, Watched, watched_for
from scheduler.model.pod import Pod
from scheduler.out_of_tree.loading import build_profiles, out_of_tree_plugins
from scheduler.out_of_tree.stall_timer import PluginTimeout, StallTimer
from scheduler.plugins.node_trust import NodeTrust
from scheduler.version import __version__

USER_AGENT: Final = f"py-scheduler/{__version__} explain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody wants to know.

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
    manifest: Text | None = None
    snapshots: tuple[Text, ...] = ()
    config: str | None = None
    profile: str = ""
    kubeconfig: str = ""
    context: str = ""


def answer(question: Question) -> Document:
    """Explain what would be decided.

    Raises:
        ConfigurationError: If the question cannot be understood.
        ApiError: If the API server cannot be asked.
    """
    settings = RunSettings(
        config_text=question.config, kubeconfig=question.kubeconfig, context=question.context
    )
    # Nothing is bound here: the names of the cluster's own scheduler are as good as any.
    configuration, profiles = build_profiles(settings.draft(), replace_default_scheduler=True)
    watched = watched_for(needs_of_all(profiles.values()))
    if question.snapshots:
        subject = _from_dump(question, watched)
    else:
        kubeconfig = configuration.client_connection.kubeconfig
        subject = asyncio.run(_from_cluster(question, watched, kubeconfig))
    for extender in configuration.extenders:
        subject.notes.append(f"extender {extender.url_prefix} was not asked")
    profile = _choose_profile(question, profiles, subject)
    return _answer(profile, profiles, watched, subject)


@dataclass(slots=True)
class _Subject:
    """The pod in question and the cluster around it; *now* is when, in seconds since 1970."""

    pod: Pod
    picture: Picture
    completed: list[str]
    notes: list[str]
    now: float


def _answer(
    profile: Profile,
    profiles: Mapping[str, Profile],
    watched: tuple[Watched[Any], ...],
    subject: _Subject,
) -> Document:
    picture, pod = subject.picture, subject.pod
    picture.take_out(pod)
    if pod.node_name:
        subject.notes.append(
            f"the pod is on {pod.node_name} already; explained as if it were still pending"
        )
        pod = replace(pod, spec=replace(pod.spec, node_name=""))
    if pod.terminating:
        subject.notes.append("the pod is being deleted; a scheduler would pass it over")
    if any(plugin.name == NodeTrust.name for plugin in profile.filter):
        ledger = trust.remember(picture.cache, picture.refused, profiles.keys(), subject.now)
        subject.notes.extend(trust.told(picture.cache, ledger, pod, subject.now))
    nodes = picture.cache.view()
    timer = StallTimer()
    timer.install()
    plugin_timeout = PluginTimeout(out_of_tree_plugins(profile), timer)
    attempt = Attempt(profile, pod, nodes, picture.nominated(), observer=plugin_timeout)
    around = Circumstances(
        len(nodes),
        subject.completed,
        missing_kinds(picture, watched, _readers(profile)),
        [*subject.notes, *(f"left out, since unreadable: {each}" for each in picture.unreadable)],
    )
    return document(profile, explain(attempt), around)


def _readers(profile: Profile) -> dict[str, list[str]]:
    """Return who reads what beside pods and nodes, which everyone reads."""
    readers: dict[str, list[str]] = {}
    for plugin in profile.plugins:
        for need in needs_of(plugin):
            readers.setdefault(need, []).append(plugin.name)
    return readers


def _choose_profile(
    question: Question, profiles: Mapping[str, Profile], subject: _Subject
) -> Profile:
    named = subject.pod.spec.scheduler_name
    if question.profile:
        if question.profile not in profiles:
            raise ConfigurationError(
                f"--profile: there is no profile {question.profile}; "
                f"the configuration has {', '.join(profiles)}"
            )
        return profiles[question.profile]
    if named in profiles:
        return profiles[named]
    first = next(iter(profiles.values()))
    subject.notes.append(
        f"the pod names the scheduler {named}, which is no profile here; "
        f"explained as if it named {first.scheduler_name}"
    )
    return first


# Where pod and cluster come from.


def _from_dump(question: Question, watched: tuple[Watched[Any], ...]) -> _Subject:
    wanted = {each.resource: each for each in (*watched, PRIORITY_CLASSES)}
    picture = read_dump(question.snapshots, wanted.values())
    if question.manifest is None:
        return _known(question, picture, "in the snapshot", picture.newest)
    given = _manifest(question.manifest, question.namespace)
    completed, done = completion.complete(given, question.namespace, picture.priority_classes)
    pod = _decode(completed, question.manifest[0])
    return _Subject(pod, picture, done, [completion.NOT_IMITATED], picture.newest)


async def _from_cluster(
    question: Question, watched: tuple[Watched[Any], ...], kubeconfig: str
) -> _Subject:
    credentials = await load_credentials(kubeconfig or None, context=question.context or None)
    async with ApiClient(credentials, limiter=RateLimiter(-1), user_agent=USER_AGENT) as client:
        if question.manifest is None:
            picture = await cluster.read_cluster(client, watched)
            return _known(question, picture, "in the cluster", time.time())
        # Asked first: a pod that the API server refuses makes a long list pointless.
        given = _manifest(question.manifest, question.namespace)
        completed, done = await cluster.complete(client, given, question.namespace)
        picture = await cluster.read_cluster(client, watched)
        notes = ["completed by the API server, by a dry run"]
        pod = _decode(completed, question.manifest[0])
        return _Subject(pod, picture, done, notes, time.time())


def _known(question: Question, picture: Picture, where: str, now: float) -> _Subject:
    key = f"{question.namespace or 'default'}/{question.name}"
    pod = picture.pods.get(key)
    if pod is None and key in picture.ended:
        raise ConfigurationError(f"pod {key} is over ({picture.ended[key]}): it goes nowhere")
    if pod is None:
        raise ConfigurationError(
            f"there is no pod {key} {where}; name its namespace with -n, or give a manifest with -f"
        )
    if pod.malformed:
        raise ConfigurationError(f"pod {key} cannot be read: {pod.malformed}")
    return _Subject(pod, picture, [], [], now)


def _manifest(text: Text, namespace: str) -> dict[str, Any]:
    """Return the one pod that *text* holds."""
    name, _ = text
    found = list(documents(text))
    if len(found) != 1 or found[0].get("kind") != "Pod":
        kinds = ", ".join(str(each.get("kind")) for each in found)
        inside = "; write its spec.template as a Pod" if _has_template(found) else ""
        raise ConfigurationError(f"{name}: must hold one Pod and nothing else, not {kinds}{inside}")
    pod = found[0]
    # Read once as it is, for the types of its fields; a name may still be generated.
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
    pod = Decoder(PODS.with_annotations()).item(raw)
    problem = pod.problem if isinstance(pod, Unreadable) else pod.malformed
    if problem:
        raise ConfigurationError(f"{where}: {problem}")
    assert isinstance(pod, Pod)
    return pod
