"""Spans: an optimizer's time from one of its steps to the next, and what the step at the end uses.

In a correct loop a span holds the backwards of one window.  A backward also leaves gradients with optimizers that its
own step ignores (a generator's loss in the discriminator): those are *strays*, and wiping them is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck.events import Backward, Step, ZeroGrad
from ampcheck.gradients import Contribution
from ampcheck.trace import Record, Trace

__all__ = ["Round", "Span", "accumulates", "is_stray", "own_micros", "round_of", "spans"]


Round = tuple[int, tuple[int, ...]]
"""One run through an innermost loop: the epoch, and where the loops around it stand."""


@dataclass(frozen=True, slots=True)
class Span:
    """The records after one step of an optimizer up to its next one; `step` is None for those after the last.

    `backwards` are those that reach the optimizer.  A step that torch refuses ends no span.
    """

    optimizer: str
    records: tuple[Record, ...]
    step: Record | None
    backwards: tuple[tuple[Record, Backward], ...]

    @property
    def micros(self) -> tuple[int, ...]:
        """The distinct micro-batches with a backward, in order."""
        return tuple(dict.fromkeys(backward.micro for _, backward in self.backwards))

    @property
    def rounds(self) -> frozenset[Round]:
        """The rounds of the innermost loop that the backwards belong to."""
        return frozenset(round_of(record) for record, _ in self.backwards)


def round_of(record: Record) -> Round:
    """The round that a record belongs to: a window that spans two of them carries a tail over."""
    return record.epoch, record.iteration[:-1]


def spans(trace: Trace, optimizer: str) -> Iterator[Span]:
    """The spans of an optimizer, in order; the last one has no step."""
    records: list[Record] = []
    backwards: list[tuple[Record, Backward]] = []
    for record in trace.records:
        records.append(record)
        event = record.event
        if isinstance(event, Backward) and optimizer in event.reaches:
            backwards.append((record, event))
        elif isinstance(event, Step) and event.optimizer == optimizer and not record.refused:
            yield Span(optimizer, tuple(records), record, tuple(backwards))
            records, backwards = [], []
    yield Span(optimizer, tuple(records), None, tuple(backwards))


def accumulates(span: Span) -> bool:
    """Whether a span ends in a step on several micro-batches."""
    return span.step is not None and len(span.micros) > 1


def is_stray(trace: Trace, contribution: Contribution, owner: str, at: Record) -> bool:
    """Whether a contribution of an owner belongs to another optimizer's update, so that `at` should not count it.

    At a zeroing: another optimizer has stepped on the same backward, or holds it and is not zeroed.  At a step:
    another one has stepped on it, and the owner has gone on to a backward since.
    """
    if not 0 <= contribution.record < len(trace.records):
        return False
    event = trace.records[contribution.record].event
    others = {o for o in event.reaches if o != owner} if isinstance(event, Backward) else set()
    others = {o for o in others if o in trace.roles and trace.roles[o].kind == "optimizer"}
    between = trace.between(contribution.record, at.index) if others else ()
    steps = [r.index for r in between if isinstance(r.event, Step) and r.event.optimizer in others]
    if isinstance(at.event, ZeroGrad):
        return bool(steps) or any(
            c.record == contribution.record
            for other in others.difference(at.event.owners)
            for c in at.before.buffer(other).contributions
        )
    last = max(
        (r.index for r in between if isinstance(r.event, Backward) and owner in r.event.reaches), default=-1
    )
    return any(step < last for step in steps)


def feeds_step(trace: Trace, backward: int, optimizer: str) -> bool:
    """Whether the backward at this place in the code ever adds to what an optimizer steps on.

    A dry run that only tries out the memory (backward, zero, and again) never does.
    """
    site = trace.records[backward].event.site
    return any(
        trace.records[c.record].event.site == site
        for record, step in trace.of(Step)
        if step.optimizer == optimizer
        for c in record.before.buffer(optimizer).contributions
        if c.record >= 0
    )


def own_micros(trace: Trace, span: Span) -> frozenset[int]:
    """The micro-batches that a span's step uses, without strays; empty where there is no step."""
    if span.step is None:
        return frozenset()
    held = span.step.before.buffer(span.optimizer).contributions
    return frozenset(c.micro for c in held if not is_stray(trace, c, span.optimizer, span.step))
