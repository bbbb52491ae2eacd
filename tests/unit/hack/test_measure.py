"""What `make measure` counts; and that the path of a pod does not grow."""

from hack.measure.path import trace
from hack.measure.shape import measure

FUNCTIONS_MAXIMUM = 45
MODULES_MAXIMUM = 20

CODE = '''"""A docstring.

# Not a comment.
"""

import os  # noqa: F401
import sys  # noqa: F401 - shows how a reason counts

# Why this is so.


class Thing:
    def __init__(self, a, b, *, c=1, **more):
        """Two words."""
        assert a
        self.a = a  # why this, too


def longer():
    """Text

    of three lines.
    """
    return 1
'''


def test_the_path_from_a_watch_event_to_the_binding_stays_short():
    """An engineer reads it in one sitting; ``python -m hack.measure --path`` lists it."""
    path = trace()

    assert len(path.way) <= FUNCTIONS_MAXIMUM, "\n".join(path.way)
    assert path.way_modules <= MODULES_MAXIMUM, "\n".join(path.way)
    assert set(path.way) < set(path.everything)


def test_the_path_leads_through_all_that_is_real():
    way = " ".join(trace().way)

    for station in ("Reflector.run", "ControlLoop.run", "schedule", "BindingCycle", "kube.binding"):
        assert station in way


def test_comments_assertions_and_constructors_are_counted_as_their_docstrings_say(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "thing.py").write_text(CODE)

    shape = measure(tmp_path / "code")

    assert shape.comments == 3
    assert shape.assertions == 1
    assert shape.constructors == {"code/thing.py: Thing": 4}
    assert sorted(shape.functions) == [2, 3]
    assert shape.docstring_lines == 9
    assert shape.largest(1) == [("code/thing.py", CODE.count("\n"))]


def test_a_folder_can_be_left_out(tmp_path):
    (tmp_path / "code" / "testing").mkdir(parents=True)
    (tmp_path / "code" / "testing" / "kit.py").write_text("assert True\n")

    assert measure(tmp_path / "code").assertions == 1
    assert measure(tmp_path / "code", without="testing").assertions == 0
