"""Words that were retired stay away: Kubernetes and the field have better ones.

Names are searched for in Python code, phrases in everything that people read. Where a retired name
is plain English as well, only the form in which it was coined is listed.
"""

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[3]
IDENTIFIERS = {
    # kube
    "Told": "ObjectStore",
    "Patience": "ReflectorTimeouts, PluginTimeout",
    "Company": "SharedBackoff",
    "lent_session": "kopf_session",
    "own_access": "self_access_review",
    "husk": "partial object",
    "is_spared": "bypasses_proxy",
    # snapshot
    "Crowd": "PotentialVictims",
    "Crowds": "PotentialVictims",
    "crowds": "potential_victims",
    "Worth": "Contribution",
    "worths": "pod_contribution",
    "Tally": "CountColumn",
    "stranded": "orphaned",
    "Untold": "UnresolvedVolumes",
    # framework and cycle
    "objections": "all_rejections",
    "Narrowed": "PreFilterResult",
    "is_undone": "capacity_was_taken",
    "Breathe": "Pause",
    # loop, binding, preemption
    "Placement": "BindingAttempt",
    "PlacementPlugins": "BindingPlugins",
    "PlacementRequests": "BindingRequests",
    "HeldPods": "WaitingPods",
    "held_pods": "waiting_pods",
    "call_off": "cancel",
    "MadeRoom": "FreedCapacities",
    "made_room": "freed_capacity",
    "Neighbours": "OtherSchedulers",
    "neighbours": "other_schedulers",
    "PluginCare": "PluginSupervisor",
    "plugin_care": "plugin_supervisor",
    "user_plugins": "out_of_tree",
    "foreign_plugins": "out_of_tree_plugins",
    "Setup": "LoopConfiguration",
    "assembly": "core",
    "DriftCheck": "CacheComparer",
    # observe and queue
    "Stories": "PodHistory",
    "Occasion": "MoveReason",
    "occasion": "reason",
    "unshown": "pending_changes",
    "Places": "QueueStates",
    "place_of": "state_of",
    # app and tests
    "ever_anew": "restart_forever",
    "until_broken": "run_and_wait",
    "_feel_for_stalls": "measure_loop_lag",
    "witness": "invariant_checker",
    "Witness": "InvariantChecker",
    "Storm": "FaultInjector",
    "storm": "fault_injector",
    "weather": "faults",
}
"""Names of the past, and what they are called now."""
PHRASES = (
    "is told",
    "are told",
    "was told",
    "were told",
    "told to go",
    "told to leave",
    "one ear",
    "an ear of",
    "looks on",
    "hears of",
    "heard of",
    "lets the world",
    "the world be heard",
    "make room",
    "makes room",
    "making room",
    "made room",
    "room is made",
    "room is being made",
    "foreign plugin",
    "user plugin",
    "knows nothing of",
    "rides out",
    "befalls",
)
CODE = ("scheduler", "hack", "benchmarks", "tests")
PROSE = ("README.md", "CONTRIBUTING.md", "docs", "charts", "deploy", "scheduler", "hack")
READ = {".py", ".md", ".yaml", ".yml", ".txt", ".tpl", ".json"}


def files(places, suffixes):
    """Return all files of ours below *places*."""
    found = []
    for place in places:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("*"))
    return [each for each in found if each.suffix in suffixes and each != Path(__file__)]


def retired_names():
    """Yield every use of a retired name in Python, with its place and what it is called now."""
    for path in files(CODE, {".py"}):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.NAME and token.string in IDENTIFIERS:
                where = f"{path.relative_to(ROOT)}:{token.start[0]}"
                yield f"{where}: {token.string} is {IDENTIFIERS[token.string]} now"


def retired_phrases():
    """Yield every use of a retired phrase in what people read, with its place."""
    pattern = re.compile(rf"\b({'|'.join(PHRASES)})\b".replace(" ", r"\s+"))
    for path in files(PROSE, READ):
        text = path.read_text()
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: {' '.join(found[0].split())}"


def test_retired_names_stay_away():
    found = list(retired_names())

    assert not found, "\n".join(found)


def test_retired_phrases_stay_away():
    """Say what happens: who receives, reads, evicts or compares what."""
    found = list(retired_phrases())

    assert not found, "\n".join(found)


def test_files_are_found():
    assert len(files(CODE, {".py"})) > 300
    assert len(files(PROSE, READ)) > 300
