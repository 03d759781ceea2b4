"""What is executed for one witness: the acts of the user's loop, and those of every acceptable reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ampcheck import events as ev
from ampcheck.protocol import Act, correct
from ampcheck.replay.plans import plans
from ampcheck.replay.practice import Loop, read_loop
from ampcheck.rule import Habit
from ampcheck.spans import is_stray
from ampcheck.trace import Record, Trace

__all__ = ["Reference", "excerpt", "references", "until", "user_acts", "whole"]


LONG = 300
"""How many records a run may have before only its first two epochs are replayed."""


STAND_IN = "the scaler that is missing"


@dataclass(frozen=True, slots=True)
class Reference:
    """One acceptable sequence of acts; `name` says what it does with a leftover."""

    name: str
    acts: tuple[Act, ...]


def references(
    trace: Trace, records: Sequence[Record], contested: frozenset[Habit] = frozenset()
) -> tuple[Loop, tuple[Reference, ...]]:
    """The loop as it was read, and every correct sequence for these records of the trace, without habits contested.

    Where some of them step in the same places as the loop does, only those are acceptable: they agree on the tail.
    """
    loop = read_loop(trace, records)
    if "sum" in contested:
        loop = replace(loop, practice=replace(loop.practice, averaged=True))
    if "unscaled" in contested:
        scaled = {o: loop.practice.scalers.get(o, STAND_IN) for o in loop.optimizers}
        loop = replace(loop, practice=replace(loop.practice, scalers=scaled))
    found: dict[tuple[Act, ...], Reference] = {}
    for plan in plans(loop, contested, _strays(trace) if "stray" in contested else frozenset()):
        acts = tuple(correct(records, loop.practice, plan.closings, plan.update_each))
        found.setdefault(acts, Reference(plan.name, acts))
    places = _steps((r.event, r.micro) for r in records)
    alike = [r for r in found.values() if _steps((a.event, a.micro) for a in r.acts) == places]
    return loop, tuple(alike or found.values())


def _strays(trace: Trace) -> frozenset[tuple[str, int]]:
    """The optimizers and backwards whose gradients are meant for another optimizer's step."""
    return frozenset(
        (step.optimizer, c.record)
        for record, step in trace.of(ev.Step)
        for c in record.before.buffer(step.optimizer).contributions
        if is_stray(trace, c, step.optimizer, record)
    )


def _steps(events: Iterable[tuple[ev.Event, int]]) -> Counter[tuple[str, int]]:
    """How often each optimizer is stepped in each micro-batch."""
    return Counter((event.optimizer, micro) for event, micro in events if isinstance(event, ev.Step))


def excerpt(trace: Trace, *needed: int) -> int | None:
    """The index up to which there are two windows of every optimizer, where it holds the records needed; else None."""
    length = trace.window.length if trace.window else 1
    stop = max(2 * length, 4)
    for optimizer in {e.optimizer for _, e in trace.of(ev.Step)}:
        micros = [r.micro for r, e in trace.of(ev.Step) if e.optimizer == optimizer]
        stop = max(stop, micros[1] + 1 if len(micros) > 1 else trace.records[-1].micro + 1)
    end = next((r.index for r in trace.records if r.micro >= stop or r.epoch > 0), None)
    return end if end is not None and all(n < end for n in needed) and trace.complete else None


def whole(trace: Trace, *needed: int) -> int | None:
    """The index up to which there are two passes through the training loop; None where the run is no longer."""
    passes: dict[tuple[int, ...], int] = {}
    for record in trace.records:
        if isinstance(record.event, ev.Backward):
            passes.setdefault(record.iteration[:-1], record.index)
    firsts = list(passes.values())
    long = len(trace.records) > LONG and len(firsts) > 2 and all(n < firsts[2] for n in needed)
    return firsts[2] if long else None


def until(trace: Trace, stop: int | None) -> tuple[Record, ...]:
    """The records of a trace before an index; all of them without one."""
    return tuple(r for r in trace.records if stop is None or r.index < stop)


def user_acts(records: Sequence[Record]) -> Iterator[Act]:
    """The user's events as they are."""
    yield from (Act(r.event, r.micro, r.guards) for r in records)
