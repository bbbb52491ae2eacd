"""What becomes of configuration documents: kube-scheduler's ruling and ours.

A document is accepted by both or by neither. What kube-scheduler blames, we blame; what it
completes, we complete alike: plugins in their order, weights, arguments, everything above. Where
that is not so on purpose, ``STRICTER`` and ``LOOSER`` say why, and docs/configuration.md tells the
operator.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hack.fidelity.documents import make_documents
from scheduler.config.configuration import SchedulerConfiguration, read
from scheduler.config.default_plugins import OWN_PLUGINS, UPSTREAM_POINTS
from scheduler.config.plugin_args import TYPED
from scheduler.errors import ConfigurationError
from scheduler.kube.extender_client import ExtenderClient
from scheduler.out_of_tree.loading import build_profiles

Json = dict[str, Any]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[[Json], Json]

_AT_ONCE: Final = 200

STRICTER: Final = {
    r"\.weight: must not be negative": "kube-scheduler takes it for an overflow, or not at all",
    r"\.name: .* is no resource name": "a resource of no such name would never count",
    r"pluginConfig\[\d+\]\.name: must be given": "arguments of nobody",
    r"retryPeriod \* 1\.2": "kube-scheduler fails a little later, as the election starts",
    r"Data: must be text": "Go takes a list of numbers for bytes",
    r"^document: is followed by another": "kube-scheduler passes over the rest",
    r"\.(key|cert)File: must be given": "kube-scheduler shows no certificate then",
    r"initializing plugin '\w+': .* takes no arguments": "kube-scheduler passes over them",
    r"args\.ignoredResource.*: .* is no resource": "kube-scheduler does not look where an extender"
    " replaces the list",
}
"""What we alone refuse, by what we say of it."""

LOOSER: Final = {
    r'invalid duration ""': "null stands for nothing said, everywhere",
}
"""What kube-scheduler alone refuses, by what it says of it."""

_OWN: Final = frozenset(plugin.name for plugin in OWN_PLUGINS)
_RENAMED: Final = (
    (r"queueSort\.Enabled$", "queueSort.enabled"),
    (r"values\[0\]\[.*\]$", "values"),
)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of a document: problems, or the document in full."""

    problems: tuple[str, ...] = ()
    complete: Json | None = None


def rulings(ask: Ask, seed: int, changed: int, drawn: int) -> Iterator[tuple[str, Json]]:
    """Yield documents made from *seed*, each with what the oracle says of it."""
    documents = make_documents(seed, changed, drawn)
    for first in range(0, len(documents), _AT_ONCE):
        some = documents[first : first + _AT_ONCE]
        yield from zip(some, ask({"documents": some})["documents"], strict=True)


def rule(text: str) -> Ruling:
    """Take the steps of a start, as far as they concern the document."""
    try:
        build_profiles(read(text), replace_default_scheduler=True)
        as_upstream = read(text).resolve(
            {**UPSTREAM_POINTS, **{plugin.name: plugin.points for plugin in OWN_PLUGINS}},
            replace_default_scheduler=True,
        )
        ExtenderClient(as_upstream.extenders)
    except ConfigurationError as error:
        return Ruling(error.problems)
    return Ruling(complete=_completed(as_upstream))


def difference(said: Json, ours: Ruling) -> str | None:
    """Return how *ours* differs from what the oracle *said*, if it does beyond what is meant."""
    if said["stage"] != "accepted":
        if not ours.problems:
            first: str = said["problems"][0]
            return None if _known(LOOSER, [first]) else f"we accept; kube-scheduler: {first}"
        return _unblamed(said, ours)
    if ours.problems:
        known = all(_known(STRICTER, [each]) for each in ours.problems)
        return None if known else f"we refuse: {ours.problems[0]}"
    theirs = _bare(_upstream(copy.deepcopy(said["complete"])))
    assert ours.complete is not None
    return _first_difference("", theirs, _bare(ours.complete))


def _known(table: dict[str, str], said: list[str]) -> bool:
    return any(re.search(pattern, each) for pattern in table for each in said)


def _unblamed(said: Json, ours: Ruling) -> str | None:
    """Name a field that kube-scheduler blames and we do not, nor anything around or inside it."""
    blamed = [each.partition(": ")[0] for each in ours.problems]
    unknown = (re.match(r'unknown field "(.*)"', each) for each in said["problems"])
    for field in (*said.get("fields", ()), *(found[1] for found in unknown if found)):
        wanted = field
        for pattern, name in _RENAMED:
            wanted = re.sub(pattern, name, wanted)
        if not any(_related(wanted, each) for each in blamed):
            return f"kube-scheduler blames {field}; we blame {', '.join(blamed)}"
    return None


def _related(left: str, right: str) -> bool:
    around, inside = sorted((left, right), key=len)
    return inside == around or inside.startswith((f"{around}.", f"{around}["))


def _completed(configuration: SchedulerConfiguration) -> Json:
    document = configuration.written()
    for profile in document["profiles"]:
        del profile["percentageOfNodesToScore"]
        for said in profile["plugins"].values():
            said["enabled"] = [e for e in said["enabled"] if e["name"] not in _OWN]
        profile["pluginConfig"] = {e["name"]: e["args"] for e in profile["pluginConfig"]}
        for args in profile["pluginConfig"].values():
            args.pop("preemptForeignPods", None)
    return _comparable(document)


def _upstream(document: Json) -> Json:
    """Return kube-scheduler's document in our form: two names differ on purpose."""
    for profile in document["profiles"]:
        profile.pop("percentageOfNodesToScore", None)
        profile["pluginConfig"] = {e["name"]: e["args"] for e in profile.get("pluginConfig", ())}
        for name in profile["pluginConfig"].keys() & TYPED.keys():
            profile["pluginConfig"][name].pop("apiVersion", None)
            profile["pluginConfig"][name].pop("kind", None)
    election = document["leaderElection"]
    election["resourceName"] = election["resourceName"].replace("kube-scheduler", "py-scheduler")
    election["resourceNamespace"] = election["resourceNamespace"].replace("kube-system", "")
    return _comparable(document)


def _comparable(document: Json) -> Json:
    """Drop weights outside of scoring, the order of gates, secrets, and what has no meaning.

    Arguments mean nothing for a plugin that is on at no point; upstream fills some in.
    """
    for profile in document["profiles"]:
        on = {e["name"] for said in profile["plugins"].values() for e in said.get("enabled", ())}
        profile["pluginConfig"] = {n: a for n, a in profile["pluginConfig"].items() if n in on}
        profile["schedulerName"] = profile["schedulerName"].replace("default-sch", "py-sch")
        for field, said in profile["plugins"].items():
            for entry in said.get("enabled", ()):
                if field != "score":
                    entry.pop("weight", None)
        gates = profile["plugins"].get("preEnqueue", {}).get("enabled", [])
        gates.sort(key=lambda entry: entry["name"])
    for extender in document.get("extenders") or ():
        for field in ("certData", "keyData", "caData"):
            (extender.get("tlsConfig") or {}).pop(field, None)
    document.pop("enableContentionProfiling", None)
    qps = document["clientConnection"]["qps"]
    document["clientConnection"]["qps"] = float(f"{qps:.6g}")  # Go keeps 32 bits of it
    return document


def _bare(value: Any) -> Any:
    """Drop what is empty: whether it is written or left out means the same."""
    if isinstance(value, dict):
        inner = {key: _bare(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each not in (None, "", 0, [], {})}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _first_difference(path: str, theirs: Any, ours: Any) -> str | None:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            found = _first_difference(f"{path}.{key}", theirs.get(key), ours.get(key))
            if found:
                return found
        return None
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        inside = (_first_difference(f"{path}[{index}]", *pair) for index, pair in pairs)
        return next((each for each in inside if each), None)
    return None if theirs == ours else f"{path}: {theirs!r} is completed as {ours!r} here"
