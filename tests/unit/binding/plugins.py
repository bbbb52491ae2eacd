"""Plugins that answer as a test tells them to."""


class Doorman:
    """Answers permit with what *said* holds: one answer for everybody, to be changed by the test.

    An exception is raised instead. *waiting* has the names of those who waited at each question.
    """

    requeue_on = ()

    def __init__(self, said, name="Doorman"):
        self.name = name
        self.said = said
        self.waiting = []

    def permit(self, pod, node, waiting):
        self.waiting.append([each.name for each in waiting])
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


class Clerk:
    """Reserves and prepares what a test wants, and writes down what it was asked."""

    requeue_on = ()

    def __init__(self, name="Clerk", *, reserve=None, effects=(), diary=None):
        self.name = name
        self.answer = reserve
        self.effects = effects
        self.diary = [] if diary is None else diary

    def reserve(self, pod, node, nodes):
        self.diary.append(f"{self.name} reserves")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def unreserve(self, pod, node):
        self.diary.append(f"{self.name} unreserves")

    def pre_bind(self, pod, node, nodes):
        if isinstance(self.effects, Exception):
            raise self.effects
        return self.effects
