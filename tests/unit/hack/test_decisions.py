"""The digest of decisions: equal for equal decisions in equal order, and for no others."""

from hack.decisions import Decisions


def digest_of(*decided):
    decisions = Decisions()
    for each in decided:
        decisions.add(each)
    return decisions.digest


def test_equal_decisions_have_an_equal_digest_however_their_keys_are_ordered():
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_the_order_of_decisions_counts():
    assert digest_of("bind", "park") != digest_of("park", "bind")


def test_each_decision_is_written_on_its_own_line(tmp_path):
    decisions = Decisions(tmp_path / "decided")

    decisions.add({"host": "node"})
    decisions.add("park")

    assert (tmp_path / "decided").read_text() == '{"host": "node"}\n"park"\n'
