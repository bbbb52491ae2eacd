"""What we may do, as the API server tells it."""

import msgspec
import pytest

from scheduler.errors import ApiError
from scheduler.kube.permissions import Permission
from scheduler.kube.self_access_review import granted


class Answers:
    """A server, or a proxy in its place."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def post(self, path, body, params=None):
        self.asked.append(msgspec.json.decode(body)["spec"]["resourceAttributes"])
        return self.answers.pop(0)


PODS = Permission("", "v1", "pods/binding", ("create", "patch"), "binds")


async def test_each_verb_is_reviewed():
    server = Answers(b'{"status":{"allowed":true}}', b'{"status":{"allowed":false}}')

    assert await granted(server, PODS) == ("create",)
    assert [(each["resource"], each["subresource"], each["verb"]) for each in server.asked] == [
        ("pods", "binding", "create"),
        ("pods", "binding", "patch"),
    ]


@pytest.mark.parametrize("answer", [b"<html>", b"", b"[]", b"{}", b'{"status":{"allowed":"yes"}}'])
async def test_an_answer_that_makes_no_sense_is_no_answer(answer):
    with pytest.raises(ApiError, match="selfsubjectaccessreviews: the answer cannot be read"):
        await granted(Answers(answer, answer), PODS)
