"""The faults that a request can meet: drawn, counted by kind, and described."""

import random

from scheduler.errors import Conflict, Throttled, Unreachable
from scheduler.testing.simulated_api import Delay, Fault, Lose, Refuse


def draw(rng: random.Random, method: str) -> Fault:
    """Draw the fault of one request."""
    faults: list[Fault] = [
        Lose(executed=True),
        Lose(executed=True),
        Lose(executed=True, after_seconds=rng.uniform(0.0, 50.0)),
        Lose(executed=False),
        Delay(rng.uniform(0.0, 3.0)),
        Refuse(throttled(rng)),
        Refuse(Unreachable("500", status=500)),
        Refuse(Unreachable("503", status=503)),
    ]
    if method in {"PATCH", "POST"}:
        faults.append(Refuse(Conflict("the object has been modified", status=409)))
    return rng.choice(faults)


def throttled(rng: random.Random) -> Throttled:
    """Return a 429 with a Retry-After."""
    return Throttled("slow down", retry_after_seconds=rng.uniform(0.1, 2.0))


def kind_of(fault: Fault) -> str:
    """Return the name under which a fault is counted."""
    match fault:
        case Refuse(error):
            return str(error.status)
        case Lose(executed):
            return "applied, answer lost" if executed else "no answer"
        case Delay():
            return "delay"


def describe(fault: Fault) -> str:
    """Describe the fault; the text follows ``meets`` in the journal."""
    match fault:
        case Refuse(error):
            return f"{error.status} {error}"
        case Lose(executed, seconds):
            how = f"applied {seconds:.1f} s later" if executed else "not applied"
            return f"no answer, {how}"
        case Delay(seconds):
            return f"a delay of {seconds:.1f} s"
