"""How conflicts with another scheduler are counted."""

from hack.contention import Fate, Refusal, Watcher, count, most_further


def test_a_refusal_is_a_further_one_if_the_pod_was_bound_after_another_was_seen():
    one, soon, later = Refusal(0.0, 1.0), Refusal(1.2, 1.3), Refusal(2.0, 2.5)

    assert most_further([one]) == 0
    assert most_further([one, soon]) == 0
    assert most_further([one, soon, later]) == 1


def test_only_our_own_refusals_count():
    watcher = Watcher()
    watcher.fates = {
        "1": Fate("py-scheduler", "web", "n", 1.0, 2.0),
        "2": Fate("default-scheduler", "db", "n", 1.0, 2.0),
        "3": Fate("py-scheduler", "web", "n", 1.0),
    }
    lines = [
        {"event": "preemption.undone", "pod": "contention/web-x1", "node": "n"},
        {"event": "pod.preempted"},
    ]
    result = count(watcher, lines, 1.0, trust=True)

    assert (result.bound, result.refusals, result.theirs) == (2, 1, 1)
    assert (result.evictions, result.undone) == (1, {("web", "n"): 1})
