"""Questions about boundaries: which tests guard an event, which window the code declares, and who keeps to it."""

from __future__ import annotations

import re

from ampcheck.events import Backward, Clip, Jump, ScheduleStep, Site, Step, Update, ZeroGrad
from ampcheck.gradients import Buffer
from ampcheck.spans import accumulates, own_micros, round_of, spans
from ampcheck.trace import Guard, Record, Trace, Window
from ampcheck.windows import fresh, previous_backward, tests_beyond

__all__ = [
    "boundary_of",
    "decides_precision",
    "evidence_of_window",
    "first_of_each",
    "is_ambiguous_literal",
    "is_conditional",
    "is_eventful",
    "is_sure",
    "is_within",
    "length",
    "meets_fresh",
    "names_accumulation",
    "next_touch",
    "optimizers",
    "per_micro_schedule",
    "steps_inside_window",
]

_ACCUMULATION = re.compile(
    r"accum|micro|grad_?acc|acc_?(steps?|iters?|grad)|update_?freq|iter_?size|batch_?(split|multipl)|subdiv",
    re.IGNORECASE,
)
_PRECISION = re.compile(
    r"\bamp|_amp|scaler|fp16|bf16|half|precision|autocast|cuda|device|dist|ddp|fsdp|clip|norm", re.IGNORECASE
)


def optimizers(trace: Trace) -> tuple[str, ...]:
    """The optimizers whose windows can be seen: a closure re-evaluates the loss inside the step (LBFGS)."""
    closures = {step.optimizer for _, step in trace.of(Step) if step.closure}
    return tuple(role.id for role in trace.roles_of("optimizer") if role.id not in closures)


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


# --- guards ---


def boundary_of(record: Record) -> Guard | None:
    """The boundary test that a record depends on, the innermost where there are several."""
    return next((g for g in reversed(record.guards) if g.boundary), None)


def is_conditional(trace: Trace, record: Record, owner: str) -> bool:
    """Whether a record depends on a varying test (no boundary) that the owner's last backward does not depend on."""
    backward = previous_backward(trace, record.index, owner)
    if backward is not None:
        return bool(tests_beyond(record, backward))
    return any(g.varying and not g.boundary for g in record.guards)


def is_eventful(trace: Trace) -> bool:
    """Whether a test of the user's own makes this run leave iterations: it may be one in which nothing works."""
    return any(any(g.varying and not g.boundary for g in r.guards) for r, _ in trace.of(Jump))


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
    return window.told or _ACCUMULATION.search(window.text) is not None or " // " in window.text


def is_ambiguous_literal(window: Window) -> bool:
    """Whether K is the number 2, by which code divides for many reasons (``(real + fake) / 2``)."""
    return window.literal and window.length <= 2


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
    # What runs once per epoch gates nothing inside the loop.
    inside = {r.iteration for r, backward in trace.of(Backward) if optimizer in backward.reaches}
    kinds: dict[str, list[Record]] = {
        "zero": [r for r, zero in trace.of(ZeroGrad) if optimizer in zero.owners and r.iteration in inside],
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
        step, sites = span.step, [backward.site for _, backward in span.backwards]
        # One statement several times in a micro-batch: a loop that was not taken for one over micro-batches.
        if len(span.micros) == 1 and len(sites) > len(set(sites)):
            return ()
        if step and (
            boundary_of(step) or (len(span.micros) > 1 and not is_conditional(trace, step, optimizer))
        ):
            return ()
    return evidence_of_window(trace, optimizer)


# --- schedules ---


def per_micro_schedule(trace: Trace, scheduler: str, optimizer: str) -> tuple[Record, ...]:
    """The steps of a schedule in the first span in which it advances on several micro-batches of one round.

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
        for one in {round_of(r) for r in advances}:
            together = tuple(r for r in advances if round_of(r) == one)
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
