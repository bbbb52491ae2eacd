"""The history of each pod, within bounds."""

from scheduler.observe.pod_history import Entry, PodHistory, render


def test_a_history_is_in_order():
    history = PodHistory()

    history.add("u", 1.0, 0, "added")
    history.add("u", 1.5, 1, "parked")

    assert history.of("u") == (Entry(1.0, 0, "added"), Entry(1.5, 1, "parked"))
    assert render(history.of("u")) == (
        "   +0.000s  attempt 0  added\n   +0.500s  attempt 1  parked"
    )


def test_an_unknown_pod_has_an_empty_history():
    assert PodHistory().of("u") == ()
    assert render(()) == "nothing is remembered"


def test_the_oldest_entries_are_dropped_first():
    history = PodHistory(entries_maximum=2)
    for time in range(4):
        history.add("u", time, 0, str(time))

    assert [entry.text for entry in history.of("u")] == ["2", "3"]


def test_the_pod_that_changed_longest_ago_is_dropped_first():
    history = PodHistory(pods_maximum=2)
    for uid in ("a", "b", "a", "c"):
        history.add(uid, 0, 0, "x")

    assert history.of("b") == ()
    assert len(history.of("c")) == 1
    assert len(history.of("a")) == 2


def test_long_texts_drop_the_pods_that_changed_longest_ago():
    history = PodHistory(characters_maximum=1000)
    for number in range(100):
        history.add(f"u{number}", 0, 1, f"{number:0400}")
        history.add(f"u{number}", 1, 2, f"{number:0400}")  # the same again takes no memory

    assert [len(history.of(f"u{number}")) for number in (97, 98, 99)] == [0, 2, 2]
    history.add("u99", 2, 3, "x" * 2000)
    assert history.of("u98") == ()
    assert len(history.of("u99")) == 3


def test_a_text_that_repeats_is_kept_once():
    """Thousands of pods wait for hours, each with the same few hundred letters at every attempt."""
    history, nodes = PodHistory(), 5000
    for time in range(3):
        history.add("u", time, time, f"0/{nodes} nodes are available")

    assert len({id(entry.text) for entry in history.of("u")}) == 1
