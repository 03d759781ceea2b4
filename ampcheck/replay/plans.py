"""Where a loop's windows may end: every division into windows that is defensible, and no other.

A loop that declares a window of K micro-batches closes after K of them.  What is left of an epoch may be carried into
the next window, dropped, or flushed with a step of its own, divided by K or by its own length; or the counting goes on
across epochs.  A loop that declares none closes where it steps (GAN, truncated BPTT, SAM, several losses).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck import events as ev
from ampcheck.gradients import UNSCALED
from ampcheck.protocol import Closing
from ampcheck.replay.iterations import Slot
from ampcheck.replay.practice import Loop
from ampcheck.rule import Habit
from ampcheck.trace import Record

__all__ = ["Plan", "plans"]


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

    @property
    def carries(self) -> bool:
        """Whether it stays in the next epoch's first window, on top of that window's own micro-batches."""
        return not (self.across or self.dropped or self.flushed)


TAILS = (
    _Tail("the leftover is carried into the next epoch"),
    _Tail("windows are counted across epochs", across=True),
    _Tail("the leftover is dropped", dropped=True),
    _Tail("the leftover is flushed, divided by K", flushed=True),
    _Tail("the leftover is flushed, divided by its length", flushed=True, by_length=True),
    _Tail("only micro-batches with a backward count", across=True, by_count=True),
    _Tail("only micro-batches with a backward count, by epoch", by_count=True),
)


class _Course:
    """One optimizer's part in a loop: the backwards that reach it, and the indices of what happens to it."""

    def __init__(self, loop: Loop, optimizer: str, strays: frozenset[int] = frozenset()) -> None:
        self.loop, self.optimizer = loop, optimizer
        records = loop.records
        self.reaching = [r for r in records if self._reaches(r.event) and r.index not in strays]
        self.steps = [r.index for r in records if self._is_step(r.event)]
        self.zeroes = [r.index for r in records if self._is_zero(r.event)]
        self.discards = list(self._discards()) if self.steps else []
        self.thrown_away = list(self._thrown_away())
        first = self.reaching[0].index if self.reaching else len(records)
        # Whether the gradients are meant for steps, even where none is made.
        self.is_used = any(index > first for index in self.zeroes) or any(
            isinstance(r.event, ev.Unscale) and r.event.optimizer == optimizer for r in records
        )

    def _reaches(self, event: ev.Event) -> bool:
        return isinstance(event, ev.Backward) and self.optimizer in event.reaches

    def _is_step(self, event: ev.Event) -> bool:
        return isinstance(event, ev.Step) and event.optimizer == self.optimizer

    def _is_zero(self, event: ev.Event) -> bool:
        return isinstance(event, ev.ZeroGrad) and self.optimizer in event.owners

    def _discards(self) -> Iterator[int]:
        """The updates by which a loop gives up gradients that it has unscaled: they are zeroed, never stepped."""
        following: ev.Event | None = None
        found = []
        for record in reversed(self.loop.records):
            event = record.event
            if isinstance(event, ev.Update) and record.before.phase(event.scaler, self.optimizer) == UNSCALED:
                if isinstance(following, ev.ZeroGrad | None):
                    found.append(record.index)
            elif self._is_step(event) or self._is_zero(event) or self._reaches(event):
                following = event
        return reversed(found)

    def _thrown_away(self) -> Iterator[int]:
        """Where an error handler throws gradients away: it zeroes them, and the rest of the iteration is skipped."""
        last_jump: dict[tuple[int, ...], int] = {}
        stepping: set[tuple[int, ...]] = set()
        for record in self.loop.records:
            if isinstance(record.event, ev.Jump):
                last_jump[record.iteration] = record.index
            elif self._is_step(record.event):
                stepping.add(record.iteration)
        for record in self.loop.records:
            jumps = last_jump.get(record.iteration, BEFORE) > record.index
            if jumps and self._is_zero(record.event) and record.iteration not in stepping:
                yield record.index

    def takes(self, after: int, until: int) -> list[Record]:
        """The backwards after one index and before another, without what a handler has thrown away."""
        thrown = _last_before(self.thrown_away, until)
        return [r for r in self.reaching if max(after, thrown) < r.index < until]


BEFORE = -1  # an index before every record


def _last_before(indices: list[int], end: int) -> int:
    place = bisect_left(indices, end)
    return indices[place - 1] if place else BEFORE


def plans(
    loop: Loop,
    contested: frozenset[Habit] = frozenset(),
    strays: frozenset[tuple[str, int]] = frozenset(),
) -> Iterator[Plan]:
    """The acceptable plans of a loop, the likeliest first, equal ones once; none with a habit that is contested.

    `strays`: optimizers with the backwards that reach them and that no window of theirs may take.
    """
    courses = [
        _Course(loop, optimizer, frozenset(index for owner, index in strays if owner == optimizer))
        for optimizer in loop.optimizers
    ]
    declared = any(k > 1 for k in loop.windows.values())
    seen: set[tuple[Closing, ...]] = set()
    for tail in TAILS if declared else TAILS[:1]:
        if declared and tail.carries and "carry" in contested:
            continue
        closings = tuple(_closings(courses, tail))
        if closings in seen:
            continue
        seen.add(closings)
        name = tail.name if declared else "where the loop steps"
        yield Plan(name, closings)
        if _updates_may_follow_each(loop, closings):
            yield Plan(f"{name}, an update after each optimizer", closings, update_each=True)


def _closings(courses: list[_Course], tail: _Tail) -> Iterator[Closing]:
    """All closings in the order in which they come; after one backward, in the order of the optimizers."""
    found = []
    for rank, course in enumerate(courses):
        length = course.loop.windows[course.optimizer]
        closings = _by_length(course, length, tail) if length > 1 else _by_steps(course)
        found += [(c.anchor, rank, c) for c in closings]
    yield from (c for _, _, c in sorted(found, key=lambda f: f[:2]))


def _by_length(course: _Course, length: int, tail: _Tail) -> Iterator[Closing]:
    """Closings after every `length` iterations."""
    reached = [r.index for r in course.reaching]
    previous, number = BEFORE, -1
    for epoch in course.loop.epochs:
        slots = [s for s in epoch if not tail.by_count or _last_before(reached, s.stop) >= s.start]
        number = number if tail.across else -1
        begun = False
        for slot in slots:
            number += 1
            begun = begun or slot.trains
            if not begun:  # a prefix that a resumed run passes over
                continue
            full = number % length == length - 1
            flush = tail.flushed and slot is slots[-1] and not full
            if not (full or flush):
                continue
            anchor = _anchor(course, slot, reached)
            takes = course.takes(previous, anchor + 1)
            if tail.dropped:
                takes = [r for r in takes if r.index >= epoch[0].start]
            if takes:
                divisor = len({r.micro for r in takes}) if flush and tail.by_length else length
                steps = _last_before(course.discards, slot.stop) < slot.start
                indices = tuple(r.index for r in takes)
                yield Closing(course.optimizer, indices[-1], indices, divisor, steps)
            previous = max(previous, anchor)


def _anchor(course: _Course, slot: Slot, reached: list[int]) -> int:
    """The index of the backward after which an optimizer closes in an iteration: where it steps, or at the end."""
    first_step = bisect_left(course.steps, slot.start)
    step = course.steps[first_step] if first_step < len(course.steps) else slot.stop
    inside = _last_before(reached, min(step, slot.stop))
    return inside if inside >= slot.start else _last_before(reached, slot.stop)


def _by_steps(course: _Course) -> Iterator[Closing]:
    """Closings where the loop steps; where it never does, at the end of each micro-batch."""
    ends = sorted([(index, True) for index in course.steps] + [(index, False) for index in course.discards])
    if not ends and course.is_used:
        ends = [(index + 1, True) for index in {r.micro: r.index for r in course.reaching}.values()]
    previous = BEFORE
    for end, steps in ends:
        takes = course.takes(previous, end)
        zeroed = _last_before(course.zeroes, end)
        since = [r for r in takes if r.index > zeroed]
        takes = since or (takes if course.loop.complete else [])
        if takes:
            indices = tuple(r.index for r in takes)
            yield Closing(course.optimizer, indices[-1], indices, 1, steps)
        previous = end


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
