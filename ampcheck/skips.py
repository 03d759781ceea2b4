"""What a test of two readings of the loss scale says about whether the scaler skipped the step.

`update` lowers the scale exactly when a step was skipped, and raises it now and then when none was.  So the test
``before <= after`` says "stepped" and ``before > after`` says "skipped"; every other comparison misreads growth, and
two readings on one side of the update say nothing (torch/amp/grad_scaler.py, 2.13).
"""

from __future__ import annotations

import re
from typing import Literal

from ampcheck.events import ReadScale, SkipTest, Step, Update
from ampcheck.trace import Guard, Record, Trace

__all__ = ["asks_for_skip", "is_exact", "meaning", "one_sided", "stepped_between", "succeeded"]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_SKIP_WORDS = re.compile(r"skip|found_?inf|overflow|scale", re.IGNORECASE)


def asks_for_skip(guard: Guard) -> bool:
    """Whether a test is about a skipped step, by its readings of the scale or at least by its words."""
    return guard.skip is not None or (not guard.boundary and _SKIP_WORDS.search(guard.text) is not None)


def _readings(trace: Trace, test: SkipTest) -> tuple[int, int] | None:
    """Where the two readings stand in the trace, left and right; None when one of them lies outside it."""
    places = {read.reading: record.index for record, read in trace.of(ReadScale)}
    if test.left not in places or test.right not in places:
        return None
    return places[test.left], places[test.right]


def one_sided(trace: Trace, test: SkipTest) -> bool:
    """Whether no update lies between the two readings, so that they are always equal."""
    places = _readings(trace, test)
    if places is None:
        return False
    between = trace.between(min(places), max(places))
    return not any(isinstance(r.event, Update) and r.event.scaler == test.scaler for r in between)


def meaning(trace: Trace, test: SkipTest) -> Literal["stepped", "skipped", ""]:
    """What the test means when it holds: a right reading of it, or the one its author had in mind; "" if unclear."""
    places = _readings(trace, test)
    if places is None:
        return ""
    op = test.op if places[0] <= places[1] else _FLIPPED.get(test.op, "")
    if op in ("<=", "<", "=="):
        return "stepped"
    return "skipped" if op in (">", "!=") else ""


def is_exact(trace: Trace, test: SkipTest) -> bool:
    """Whether the comparison tells skipped from stepped in every case, growth included."""
    places = _readings(trace, test)
    op = test.op if places is None or places[0] <= places[1] else _FLIPPED.get(test.op, "")
    return op in ("<=", ">")


def succeeded(trace: Trace, guard: Guard) -> bool:
    """Whether a guard lets its event happen only when the step was not skipped, or its gradients were finite."""
    if guard.skip is not None:
        said = meaning(trace, guard.skip)
        return said != "" and (said == "stepped") == guard.holds
    if not guard.finite:
        return False
    text = guard.text.replace(" ", "")
    asks_finite = "finite" in text and not text.startswith(("not", "~"))
    return asks_finite == guard.holds


def stepped_between(trace: Trace, test: SkipTest) -> tuple[Record, ...]:
    """The steps through the scaler between the two readings."""
    places = _readings(trace, test)
    if places is None:
        return ()
    between = trace.between(min(places), max(places))
    return tuple(r for r in between if isinstance(r.event, Step) and r.event.scaler == test.scaler)
