"""Questions about one optimizer's accumulation windows: where they end, what they hold and who declared them.

A *span* is an optimizer's time from one of its steps to the next; in a correct loop it holds the backwards of one
window.  A backward also leaves gradients with optimizers that its own step ignores (a generator's loss in the
discriminator): those are *strays*, and wiping them is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck.events import Backward, Clip, ScheduleStep, Site, Step, Update, ZeroGrad
from ampcheck.gradients import Buffer, Contribution
from ampcheck.trace import Guard, Record, Trace, Window
from ampcheck.windows import fresh

__all__ = [
    "Span",
    "accumulates",
    "boundary_of",
    "decides_precision",
    "evidence_of_window",
    "first_of_each",
    "is_ambiguous_literal",
    "is_conditional",
    "is_stray",
    "is_sure",
    "is_within",
    "length",
    "meets_fresh",
    "names_accumulation",
    "next_touch",
    "optimizers",
    "own_micros",
    "per_micro_schedule",
    "spans",
    "steps_inside_window",
]

_ACCUMULATION = re.compile(
    r"accum|micro|grad_?acc|acc_?(steps?|iters?|grad)|update_?freq|iter_?size|batch_?(split|multipl)|subdiv",
    re.IGNORECASE,
)
_PRECISION = re.compile(
    r"\bamp|_amp|scaler|fp16|bf16|half|precision|autocast|cuda|device|dist|ddp|fsdp|clip|norm", re.IGNORECASE
)


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
    def epochs(self) -> frozenset[int]:
        """The epochs of the backwards."""
        return frozenset(record.epoch for record, _ in self.backwards)


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


def optimizers(trace: Trace) -> tuple[str, ...]:
    """The optimizers of which something certain can be said: known by more than a name, stepped without a closure.

    A closure re-evaluates the loss inside the step (LBFGS), so that its windows cannot be seen.
    """
    closures = {step.optimizer for _, step in trace.of(Step) if step.closure}
    return tuple(role.id for role in trace.roles_of("optimizer") if role.known and role.id not in closures)


def is_sure(buffer: Buffer) -> bool:
    """Whether nothing about a buffer is guessed: no unseen code has had it, every owner was certainly reached."""
    return not buffer.opaque and not any(c.assumed for c in buffer.contributions)


def next_touch(trace: Trace, index: int, owner: str) -> Record | None:
    """The next backward, step or zeroing of an owner's gradients after a record."""
    for record in trace.records[index + 1 :]:
        match record.event:
            case Backward(reaches=owners) | ZeroGrad(owners=owners) if owner in owners:
                return record
            case Step(optimizer=optimizer) if optimizer == owner:
                return record
            case _:
                pass
    return None


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


def own_micros(trace: Trace, span: Span) -> frozenset[int]:
    """The micro-batches that a span's step uses, without strays; empty where there is no step."""
    if span.step is None:
        return frozenset()
    held = span.step.before.buffer(span.optimizer).contributions
    return frozenset(c.micro for c in held if not is_stray(trace, c, span.optimizer, span.step))


# --- guards ---


def boundary_of(record: Record) -> Guard | None:
    """The boundary test that a record depends on, the innermost where there are several."""
    return next((g for g in reversed(record.guards) if g.boundary), None)


def is_conditional(record: Record) -> bool:
    """Whether a record depends on a test that may come out differently for each micro-batch (no boundary)."""
    return any(g.varying and not g.boundary for g in record.guards)


def is_within(record: Record, iteration: tuple[int, ...]) -> bool:
    """Whether a record belongs to a loop iteration, or to one that encloses it."""
    depth = min(len(record.iteration), len(iteration))
    return record.iteration[:depth] == iteration[:depth]


def decides_precision(choice: Guard) -> bool:
    """Whether a choice is about precision, devices or clipping, hence not about whether to train at all."""
    return _PRECISION.search(choice.text) is not None


# --- the declared window ---


def length(trace: Trace) -> int:
    """K, or 1 where the code declares no window."""
    return trace.window.length if trace.window else 1


def names_accumulation(window: Window) -> bool:
    """Whether the name of K says that it counts micro-batches (``accumulation_steps``)."""
    return _ACCUMULATION.search(window.text) is not None


def is_ambiguous_literal(window: Window) -> bool:
    """Whether K is the number 2, by which code divides for many reasons (``(real + fake) / 2``)."""
    return window.literal and window.length <= 2


def accumulates(span: Span) -> bool:
    """Whether a span ends in a step on several micro-batches."""
    return span.step is not None and len(span.micros) > 1


def evidence_of_window(trace: Trace, optimizer: str) -> tuple[str, ...]:
    """How the code says that this optimizer's steps should wait: "division", "zero", "clip", "schedule"."""
    found = []
    divided = any(
        c.unit.window < 0
        for record, step in trace.of(Step)
        if step.optimizer == optimizer
        for c in record.before.buffer(optimizer).contributions
    )
    if divided:
        found.append("division")
    kinds: dict[str, list[Record]] = {
        "zero": [r for r, zero in trace.of(ZeroGrad) if optimizer in zero.owners],
        "clip": [r for r, clip in trace.of(Clip) if optimizer in clip.owners],
        "schedule": [r for r, schedule in trace.of(ScheduleStep) if optimizer in schedule.optimizers],
    }
    found += [kind for kind, records in kinds.items() if records and all(boundary_of(r) for r in records)]
    return tuple(found)


def steps_inside_window(trace: Trace, optimizer: str) -> tuple[str, ...]:
    """The evidence of a window that the optimizer's steps ignore: it steps on every micro-batch.

    Empty where it does not: K is 1, a step is at a boundary, or a span holds several micro-batches for another reason
    than that a test of the user's own skipped a step.
    """
    if length(trace) < 2:
        return ()
    done = [span for span in spans(trace, optimizer) if span.step and span.micros]
    if len(done) < 2 or not any(len(span.micros) == 1 for span in done):
        return ()
    for span in done:
        if span.step and (boundary_of(span.step) or (len(span.micros) > 1 and not is_conditional(span.step))):
            return ()
    return evidence_of_window(trace, optimizer)


# --- schedules ---


def per_micro_schedule(trace: Trace, scheduler: str, optimizer: str) -> tuple[Record, ...]:
    """The steps of a schedule in the first span in which it advances on several micro-batches of an epoch.

    Advances outside the loop over micro-batches are not meant, nor those at the same boundary test as the step.
    """
    for span in spans(trace, optimizer):
        if span.step is None or not accumulates(span) or len(own_micros(trace, span)) < 2:
            continue
        boundary = boundary_of(span.step)
        inside = {record.iteration for record, _ in span.backwards}
        advances = [
            r
            for r in span.records
            if isinstance(r.event, ScheduleStep) and r.event.scheduler == scheduler and r.iteration in inside
        ]
        if boundary and any((g := boundary_of(r)) and g.text == boundary.text for r in advances):
            continue
        for epoch in {r.epoch for r in advances}:
            together = tuple(r for r in advances if r.epoch == epoch)
            if len({r.iteration for r in together}) > 1:
                return together
    return ()


# --- presentation ---


def first_of_each(trace: Trace, owner: str, start: int, stop: int) -> tuple[int, ...]:
    """What happens to an owner's gradients from record `start` to `stop`: the first record at each place."""
    seen: set[Site] = set()
    scalers = {step.scaler for _, step in trace.of(Step) if step.optimizer == owner}
    indices = []
    for record in trace.records[max(start, 0) : stop + 1]:
        event = record.event
        match event:
            case Backward(reaches=owners) | ZeroGrad(owners=owners) | Clip(owners=owners):
                touches = owner in owners
            case Step(optimizer=optimizer):
                touches = optimizer == owner
            case Update(scaler=scaler):
                touches = scaler in scalers
            case _:
                touches = False
        if touches and event.site not in seen:
            seen.add(event.site)
            indices.append(record.index)
    return tuple(indices)


def meets_fresh(trace: Trace, record: Record, owner: str) -> bool:
    """Whether an event may meet gradients of an owner that no step has used yet."""
    return record.before.buffer(owner).opaque or bool(fresh(trace, record, owner))
