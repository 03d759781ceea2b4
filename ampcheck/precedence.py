"""Where the territory of one rule ends and that of its neighbour begins.

Two rules that share a boundary ("a backward lies between the two: 105, else 106") both ask the same question
here, so that one mistake gives one finding although no rule knows another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ampcheck.engines import engine_of, in_hooks
from ampcheck.events import Backward, Edit, EngineCall, Jump, Step, Unscale, Update
from ampcheck.gradients import READY, UNSCALED, Contribution
from ampcheck.spans import is_stray
from ampcheck.trace import Record, Trace
from ampcheck.windows import (
    are_known,
    boundary_guards_beyond,
    carried_scales,
    escapes_between,
    fresh,
    left_by_test,
    next_backward,
    next_step,
    next_update,
    next_zero,
    origin,
    previous_step,
    previous_update,
    same_micro_batch,
    share_gradients,
    tests_beyond,
)

__all__ = [
    "StillScaled",
    "added_to_unscaled",
    "divided_without_scaling",
    "entered_twice",
    "follows_step",
    "inside_hooks",
    "late_backward",
    "repeated_step",
    "step_beyond_update",
    "steps_within_window",
    "still_scaled",
    "updates_idle_micro_batch",
]


@dataclass(frozen=True, slots=True)
class StillScaled:
    """Owners whose gradients carry a loss scale, by which scalers and from which backwards.

    `certain` is false where a scaler is known by name only, or an owner is guessed.
    """

    owners: tuple[str, ...]
    scalers: tuple[str, ...]
    contributions: tuple[Contribution, ...]
    certain: bool


def still_scaled(trace: Trace, record: Record, owners: Iterable[str]) -> StillScaled | None:
    """Which of these owners a record finds with gradients that `unscale_` should have divided first.

    None where there are none, where unseen code may have divided them, and where another record is the mistake: a
    next step that is raw or another scaler's, an `unscale_` that torch refused, or one that comes after the step or
    before the backward.
    """
    scales = {o: carried for o in owners if (carried := carried_scales(record.before, o))}
    steps = {o: step for o in scales if (step := next_step(trace, record.index, o))}
    if not scales or any(record.before.buffer(o).opaque for o in scales):
        return None
    if any(_steps_otherwise(step, o, scales[o]) for o, step in steps.items()):
        return None
    if any(_is_unscaled_elsewhere(trace, record, o) for o in scales):
        return None
    contributions = tuple(c for o in scales for c in record.before.buffer(o).contributions)
    scalers = tuple(sorted({s for carried in scales.values() for s in carried}))
    if escapes_between(trace, min(c.record for c in contributions), record.index, *scalers):
        return None
    certain = are_known(trace, *scalers) and not any(c.assumed for c in contributions)
    return StillScaled(tuple(scales), scalers, contributions, certain)


def _steps_otherwise(record: Record, owner: str, scales: tuple[str, ...]) -> bool:
    """Whether a step is raw or another scaler's, on gradients that nothing has divided by then (as apex does)."""
    step = record.event
    if not isinstance(step, Step) or step.scaler in scales:
        return False
    divided = not record.before.buffer(owner).is_scaled and not any(
        record.before.phase(scaler, owner) == UNSCALED for scaler in scales
    )
    return not divided


def _is_unscaled_elsewhere(trace: Trace, record: Record, owner: str) -> bool:
    """Whether an `unscale_` of the very gradients that a record finds was refused, or comes after their step.

    One that comes before the backward is the mistake in every window, although torch refuses the first alone.
    """
    step = next_step(trace, record.index, owner)
    for other, unscale in trace.of(Unscale):
        if unscale.optimizer != owner:
            continue
        if other.refused and late_backward(trace, other, owner, unscale.scaler):
            return True
        if other.index < record.index:
            in_vain, pair = bool(other.refused), (other, record)
        else:
            in_vain, pair = step is not None and step.index < other.index, (record, other)
        if in_vain and share_gradients(trace, *pair, owner):
            return True
    return False


def late_backward(trace: Trace, record: Record, optimizer: str, scaler: str) -> Record | None:
    """The backward that a premature `unscale_` (or scaled step) should have waited for, if it is one.

    Premature: nothing is in the buffer, and the backward follows before the next step or update, or at least in
    the same micro-batch; its gradients are not zeroed right before their step (else the zeroing is the mistake).
    """
    buffer = record.before.buffer(optimizer)
    backward = next_backward(trace, record.index, optimizer)
    if backward is None or not buffer.is_empty or buffer.opaque:
        return None
    zero, used = next_zero(trace, backward.index, optimizer), next_step(trace, backward.index, optimizer)
    if used is None or (zero is not None and _is_robbed(trace, zero, used, optimizer)):
        return None
    step, update = next_step(trace, record.index, optimizer), next_update(trace, record.index, scaler)
    over = isinstance(record.event, Step) or any(r and r.index < backward.index for r in (step, update))
    return backward if same_micro_batch(record, backward) or not over else None


def _is_robbed(trace: Trace, zero: Record, step: Record, optimizer: str) -> bool:
    """Whether a zeroing comes before a step with no backward in between."""
    backward = next_backward(trace, zero.index, optimizer)
    return zero.index < step.index and (backward is None or step.index < backward.index)


def added_to_unscaled(trace: Trace, record: Record) -> Record | None:
    """The backward that adds scaled gradients to what an `unscale_` has already divided, in one window.

    None where a test of the user's own made the run leave the window early: then the update or the zeroing that
    this path lacks is the mistake.  Nor where all that was unscaled is another optimizer's: that it was left there at
    all is.
    """
    unscale = record.event
    if not isinstance(unscale, Unscale) or not fresh(trace, record, unscale.optimizer):
        return None
    optimizer = unscale.optimizer
    backward = next_backward(trace, record.index, optimizer)
    if backward is None or not isinstance(backward.event, Backward):
        return None
    ends = next_step(trace, record.index, optimizer), next_zero(trace, record.index, optimizer)
    if any(end is not None and end.index < backward.index for end in ends):
        return None
    if not any(part.scaled_by(unscale.scaler) > 0 for part in backward.event.loss.parts):
        return None
    used = ends[0] or trace.records[-1]
    if all(is_stray(trace, c, optimizer, used) for c in fresh(trace, record, optimizer)):
        return None
    if same_micro_batch(record, backward):
        return backward
    step = ends[0] or previous_step(trace, record.index, optimizer)
    if step is None or left_by_test(trace, record, backward.index):
        return None
    skipped = tests_beyond(step, record) and not boundary_guards_beyond(step, record)
    return None if skipped else backward


def follows_step(trace: Trace, record: Record) -> Record | None:
    """For an `unscale_`: the step that has already used these very gradients, if there is one."""
    unscale = record.event
    if not isinstance(unscale, Unscale):
        return None
    step = previous_step(trace, record.index, unscale.optimizer)
    if step is None or step.refused or not share_gradients(trace, step, record, unscale.optimizer):
        return None
    if step.index in inside_hooks(trace):
        return None  # whoever calls the hook steps: the hook's own step is the mistake
    left = not record.before.buffer(unscale.optimizer).is_empty
    return step if left or record.refused else None


def repeated_step(trace: Trace, record: Record) -> Record | None:
    """For a step: the step before it of the same optimizer on the same gradients, if there is one.

    Scaled steps count as such across micro-batches too, where the scaler's update waits for the window's boundary.
    Two raw steps count only as two statements with nothing done to the gradients between them.
    """
    step = record.event
    if not isinstance(step, Step) or step.closure:
        return None
    if engine_of(trace, step.optimizer) and any(r is record for r, _ in in_hooks(trace)):
        return None  # AMP701: the trainer steps it
    first = previous_step(trace, record.index, step.optimizer)
    if first is not None and not inside_hooks(trace).keys().isdisjoint({first.index, record.index}):
        return None  # an engine steps as well: that is another mistake
    if first is None or not isinstance(first.event, Step) or first.event.closure:
        return None
    roles = [r for r in (step.optimizer, step.scaler, first.event.scaler) if r]
    if escapes_between(trace, first.index, record.index, *roles):
        return None
    buffer = record.before.buffer(step.optimizer)
    if not share_gradients(trace, first, record, step.optimizer):
        refused_within = record.refused and first.event.scaler == step.scaler and not buffer.is_empty
        return first if refused_within and steps_within_window(trace, record) else None
    if step.scaler is not None and first.event.scaler == step.scaler:
        return first if not first.refused else None
    if buffer.is_empty or buffer.opaque:
        return None
    if step.scaler is None and first.event.scaler is None:
        edited = any(
            isinstance(r.event, Edit) and step.optimizer in r.event.owners
            for r in trace.between(first.index, record.index)
        )
        return None if edited or first.event.site == step.site else first
    return first


def steps_within_window(trace: Trace, record: Record) -> bool:
    """Whether a scaled step runs on every micro-batch while its scaler's update waits for the boundary."""
    step = record.event
    if not isinstance(step, Step) or step.scaler is None:
        return False
    updates = (find(trace, record.index, step.scaler) for find in (next_update, previous_update))
    update = next((u for u in updates if u is not None), None)
    if update is not None and len(update.iteration) != len(record.iteration):
        return False  # a block after the loop that flushes its tail
    return update is not None and bool(
        boundary_guards_beyond(update, record) or _jumps(trace, record, update)
    )


def _jumps(trace: Trace, record: Record, update: Record | None = None) -> bool:
    """Whether a boundary test ends a record's micro-batch after it, before an update."""
    stop = update.index if update and update.index > record.index else len(trace.records)
    return any(
        isinstance(r.event, Jump) and same_micro_batch(r, record) and bool(boundary_guards_beyond(r, record))
        for r in trace.between(record.index, stop)
    )


def step_beyond_update(trace: Trace, record: Record) -> tuple[Record, Record] | None:
    """For an update between the steps of two optimizers that share its scaler: the step before and the one after.

    The second optimizer's gradients are there already, scaled or unscaled by the scale that the update replaces.
    """
    update = record.event
    if not isinstance(update, Update) or update.explicit or record.refused:
        return None
    last = previous_update(trace, record.index, update.scaler)
    done = [
        r
        for r in trace.between(last.index if last else -1, record.index)
        if isinstance(r.event, Step) and r.event.scaler == update.scaler and not r.refused
    ]
    stepped = {r.event.optimizer for r in done if isinstance(r.event, Step)}
    for optimizer in sorted({s.optimizer for _, s in trace.of(Step) if s.scaler == update.scaler} - stepped):
        step = next_step(trace, record.index, optimizer)
        if not done or step is None or not same_micro_batch(done[-1], step):
            continue
        if not isinstance(step.event, Step) or step.event.scaler != update.scaler:
            continue
        waiting = {c.record for c in fresh(trace, record, optimizer)}
        kept = {c.record for c in fresh(trace, step, optimizer)} & waiting
        scaled = any(c.unit.scaled_by(update.scaler) > 0 for c in fresh(trace, record, optimizer))
        unscaled = record.before.phase(update.scaler, optimizer) == UNSCALED
        if kept and (scaled or unscaled):
            return done[-1], step
    return None


def updates_idle_micro_batch(trace: Trace, record: Record) -> Record | None:
    """For an update that torch refuses: the boundary's step that it should have waited for.

    None where the update's own micro-batch steps, or where nothing keeps it from stepping: neither a boundary test
    nor an inner loop over the window's micro-batches.
    """
    update = record.event
    if not isinstance(update, Update) or update.explicit or not record.refused:
        return None
    steps = [r for r, step in trace.of(Step) if step.scaler == update.scaler]
    if any(same_micro_batch(r, record) for r in steps):
        return None
    gated = [
        r
        for r in steps
        if _jumps(trace, record) or boundary_guards_beyond(r, record) or _ends_inner_loop(trace, r, record)
    ]
    return next((r for r in gated if r.index > record.index), gated[-1] if gated else None)


def _ends_inner_loop(trace: Trace, step: Record, record: Record) -> bool:
    """Whether a step comes right behind the loop over a window's micro-batches that a record is in."""
    if trace.window is None or "loop" not in trace.window.declared:
        return False
    depth = len(step.iteration)
    return (
        step.index > record.index
        and depth < len(record.iteration)
        and (record.iteration[:depth] == step.iteration)
    )


def divided_without_scaling(trace: Trace, record: Record) -> tuple[Contribution, ...]:
    """For a scaled step: the contributions of plain losses that it finds, or leaves, divided by its scale."""
    step = record.event
    if not isinstance(step, Step) or step.scaler is None:
        return ()
    buffer = record.before.buffer(step.optimizer)
    division = 1 if record.before.phase(step.scaler, step.optimizer) == READY else 0
    return tuple(
        c
        for c in fresh(trace, record, step.optimizer)
        if (loss := origin(trace, buffer, c)) is not None
        and not loss.is_scaled
        and c.unit.scaled_by(step.scaler) - division < 0
    )


def entered_twice(trace: Trace) -> Iterator[tuple[Record, Record]]:
    """Pairs of entries into one Accelerator's `accumulate` in one iteration: it counts two micro-batches for one."""
    last: dict[tuple[str, ...], Record] = {}
    for record, call in trace.of(EngineCall):
        if (call.library, call.call) != ("accelerate", "accumulate") or not record.iteration:
            continue
        first = last.get(call.roles)
        if first is not None and (first.epoch, first.iteration) == (record.epoch, record.iteration):
            yield first, record
        last[call.roles] = record


def inside_hooks(trace: Trace) -> dict[int, str]:
    """The records that happen in code which an engine calls, by index, with the hook's name."""
    return {record.index: hook for record, hook in in_hooks(trace)}
