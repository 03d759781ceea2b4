"""Where a loop's windows may end: every division into windows that is defensible, and no other.

A loop that declares a window of K micro-batches closes after K of them.  What is left of an epoch may be carried into
the next window, dropped, or flushed with a step of its own, divided by K or by its own length; or the counting goes on
across epochs.  A loop that declares none closes where it steps (GAN, truncated BPTT, SAM, several losses).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck import events as ev
from ampcheck.gradients import UNSCALED
from ampcheck.protocol import Closing
from ampcheck.replay.practice import Loop, Slot
from ampcheck.trace import Record

__all__ = ["Plan", "plans"]

BEFORE = -(10**9)  # an index before every record


@dataclass(frozen=True, slots=True)
class Plan:
    """One acceptable division into windows; `name` says which, for people."""

    name: str
    closings: tuple[Closing, ...]
    update_each: bool = False


@dataclass(frozen=True, slots=True)
class _Tail:
    """What becomes of an epoch's leftover micro-batches."""

    name: str
    across: bool = False
    dropped: bool = False
    flushed: bool = False
    by_length: bool = False
    by_count: bool = False


TAILS = (
    _Tail("the leftover is carried into the next epoch"),
    _Tail("windows are counted across epochs", across=True),
    _Tail("the leftover is dropped", dropped=True),
    _Tail("the leftover is flushed, divided by K", flushed=True),
    _Tail("the leftover is flushed, divided by its length", flushed=True, by_length=True),
    _Tail("only micro-batches with a backward count", across=True, by_count=True),
    _Tail("only micro-batches with a backward count, by epoch", by_count=True),
)


def plans(loop: Loop) -> Iterator[Plan]:
    """The acceptable plans of a loop, the likeliest first, equal ones once."""
    seen: set[tuple[Closing, ...]] = set()
    declared = any(k > 1 for k in loop.windows.values())
    for tail in TAILS if declared else TAILS[:1]:
        closings = tuple(_closings(loop, tail))
        if closings in seen:
            continue
        seen.add(closings)
        name = tail.name if declared else "where the loop steps"
        yield Plan(name, closings)
        if _updates_may_follow_each(loop, closings):
            yield Plan(f"{name}, an update after each optimizer", closings, update_each=True)


def _closings(loop: Loop, tail: _Tail) -> Iterator[Closing]:
    """All closings in the order in which they come."""
    found = []
    for rank, optimizer in enumerate(loop.optimizers):
        length = loop.windows[optimizer]
        closings = _by_length(loop, optimizer, length, tail) if length > 1 else _by_steps(loop, optimizer)
        found += [(c.anchor, rank, c) for c in closings]
    yield from (c for _, _, c in sorted(found, key=lambda f: f[:2]))


# --- declared windows ---


def _by_length(loop: Loop, optimizer: str, length: int, tail: _Tail) -> Iterator[Closing]:
    reaching = _reaching(loop, optimizer)
    given_up = _discards(loop, optimizer)
    previous, number = BEFORE, -1
    for epoch in loop.epochs:
        slots = [s for s in epoch if not tail.by_count or any(s.start <= r.index < s.stop for r in reaching)]
        number = number if tail.across else -1
        for slot in slots:
            number += 1
            full = number % length == length - 1
            flush = tail.flushed and slot is slots[-1] and not full
            if not (full or flush):
                continue
            anchor = _anchor(loop, optimizer, slot, reaching)
            takes = [r for r in reaching if previous < r.index <= anchor]
            takes = _without_thrown_away(loop, optimizer, takes, anchor)
            if tail.dropped:
                takes = [r for r in takes if r.index >= epoch[0].start]
            if takes:
                divisor = len({r.micro for r in takes}) if flush and tail.by_length else length
                indices = tuple(r.index for r in takes)
                steps = not any(slot.start <= r.index < slot.stop for r in given_up)
                yield Closing(optimizer, indices[-1], indices, divisor, steps)
            previous = max(previous, anchor)


def _anchor(loop: Loop, optimizer: str, slot: Slot, reaching: list[Record]) -> int:
    """The index of the backward after which an optimizer closes in an iteration."""
    step = next((r.index for r in loop.records if slot.holds(r) and _is_step(r.event, optimizer)), slot.stop)
    inside = [r.index for r in reaching if slot.start <= r.index < step]
    before = [r.index for r in reaching if r.index < slot.stop]
    return (inside or before or [BEFORE])[-1]


# --- windows of the loop's own ---


def _by_steps(loop: Loop, optimizer: str) -> Iterator[Closing]:
    reaching = _reaching(loop, optimizer)
    discards = {r.index for r in _discards(loop, optimizer)}
    ends = [
        (r.index, r.index not in discards)
        for r in loop.records
        if r.index in discards or _is_step(r.event, optimizer)
    ]
    if not loop.steps(optimizer):
        ends = [(index + 1, True) for index in {r.micro: r.index for r in reaching}.values()]
    previous = BEFORE
    for end, steps in ends:
        takes = [r for r in reaching if previous < r.index < end]
        takes = _without_thrown_away(loop, optimizer, takes, end)
        zeroed = max(
            (r.index for r in loop.records if _zeroes(r.event, optimizer) and r.index < end), default=BEFORE
        )
        takes = [r for r in takes if r.index > zeroed] or takes
        if takes:
            indices = tuple(r.index for r in takes)
            yield Closing(optimizer, indices[-1], indices, 1, steps)
        previous = end


def _reaching(loop: Loop, optimizer: str) -> list[Record]:
    return [r for r in loop.records if isinstance(r.event, ev.Backward) and optimizer in r.event.reaches]


def _is_step(event: ev.Event, optimizer: str) -> bool:
    return isinstance(event, ev.Step) and event.optimizer == optimizer


def _zeroes(event: ev.Event, optimizer: str) -> bool:
    return isinstance(event, ev.ZeroGrad) and optimizer in event.owners


def _discards(loop: Loop, optimizer: str) -> list[Record]:
    """The updates by which a loop gives up gradients that it has unscaled: they are zeroed, never stepped."""
    found: list[Record] = []
    if not loop.steps(optimizer):
        return found
    for record in loop.records:
        event = record.event
        if not isinstance(event, ev.Update) or record.before.phase(event.scaler, optimizer) != UNSCALED:
            continue
        following = (
            r.event
            for r in loop.records
            if r.index > record.index
            and (
                _is_step(r.event, optimizer)
                or _zeroes(r.event, optimizer)
                or (isinstance(r.event, ev.Backward) and optimizer in r.event.reaches)
            )
        )
        if isinstance(next(following, None), ev.ZeroGrad | None):
            found.append(record)
    return found


def _without_thrown_away(loop: Loop, optimizer: str, takes: list[Record], before: int) -> list[Record]:
    """Without what an error handler has thrown away: zeroed, and the rest of the micro-batch skipped."""
    thrown = BEFORE
    for record in loop.records:
        if record.index > before or not _zeroes(record.event, optimizer):
            continue
        same = [r for r in loop.records if (r.epoch, r.iteration) == (record.epoch, record.iteration)]
        jumps = any(isinstance(r.event, ev.Jump) and r.index > record.index for r in same)
        if jumps and not any(_is_step(r.event, optimizer) for r in same):
            thrown = record.index
    return [r for r in takes if r.index > thrown]


# --- updates ---


def _updates_may_follow_each(loop: Loop, closings: tuple[Closing, ...]) -> bool:
    """Whether an update after every optimizer is as good as one: no gradient was scaled before another's update."""
    micros = {r.index: r.micro for r in loop.records}
    shared = False
    for number, closing in enumerate(closings):
        scaler = loop.practice.scalers.get(closing.optimizer)
        for later in closings[number + 1 :]:
            if micros[later.anchor] != micros[closing.anchor]:
                break
            if scaler is None or loop.practice.scalers.get(later.optimizer) != scaler:
                continue
            if later.optimizer == closing.optimizer or later.takes[0] <= closing.anchor:
                return False
            shared = True
    return shared
