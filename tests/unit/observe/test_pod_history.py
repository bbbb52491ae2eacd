"""Every pod has a story, within bounds."""

from scheduler.observe.pod_history import Line, PodHistory, render


def test_a_story_is_told_in_order():
    stories = PodHistory()

    stories.tell("u", 1.0, 0, "added")
    stories.tell("u", 1.5, 1, "parked")

    assert stories.of("u") == (Line(1.0, 0, "added"), Line(1.5, 1, "parked"))
    assert render(stories.of("u")) == (
        "   +0.000s  attempt 0  added\n   +0.500s  attempt 1  parked"
    )


def test_nothing_is_said_of_a_pod_that_is_not_remembered():
    assert PodHistory().of("u") == ()
    assert render(()) == "nothing is remembered"


def test_old_lines_go_first():
    stories = PodHistory(lines_maximum=2)
    for time in range(4):
        stories.tell("u", time, 0, str(time))

    assert [line.text for line in stories.of("u")] == ["2", "3"]


def test_the_pod_not_spoken_of_for_longest_is_forgotten():
    stories = PodHistory(pods_maximum=2)
    for uid in ("a", "b", "a", "c"):
        stories.tell(uid, 0, 0, "x")

    assert len(stories) == 2
    assert stories.of("b") == ()
    assert len(stories.of("a")) == 2


def test_a_story_can_be_forgotten():
    stories = PodHistory()
    stories.tell("u", 0, 0, "x")

    stories.forget("u")
    stories.forget("u")

    assert stories.of("u") == ()


def test_what_is_said_again_is_kept_once():
    """Thousands of pods are told for hours that they fit nowhere, in a few hundred letters."""
    stories, nodes = PodHistory(), 5000
    for time in range(3):
        stories.tell("u", time, time, f"0/{nodes} nodes are available")

    assert len({id(line.text) for line in stories.of("u")}) == 1
