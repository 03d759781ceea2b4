"""Statements that belong to the window's end: AMP203 (the clip), AMP302 (zero_grad) and AMP501 (the schedule)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, Place, candidate, chain
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.guards import boundary_test, out_of_loops, with_options
from ampcheck.fixes.moving import delete, insert, move, under
from ampcheck.fixes.spelling import keeps_its_meaning, written
from ampcheck.fixes.tails import TAIL, with_tail
from ampcheck.fixes.unscaling import unscale_lines
from ampcheck.trace import Record
from ampcheck.windows import next_backward, next_step, next_update

__all__ = [
    "clip_at_boundary",
    "clip_when_synchronised",
    "delete_early_zero",
    "guard_clip",
    "schedule_at_boundary",
    "schedule_when_synchronised",
    "zero_after_step",
    "zero_before_window",
]


# --- clips --------------------------------------------------------------------------------------------------------


def clip_at_boundary(case: Case) -> Iterator[Candidate]:
    """The clip goes right before the step; where the gradients are scaled there, unscaled first."""
    step = _step(case)
    own, target = _own(case), _target(case, step)
    module = own.module
    statement, asked = with_options(case, case.record, own, target)
    keeps_its_meaning(module, statement, target)
    draft = move(Draft.of(module), module, [statement], before=target.statement, asked=asked)
    title = "clip at the window's end, right before the step"
    yield candidate(title, draft)
    if isinstance(step.event, ev.Step) and step.event.scaler is not None:
        lines = unscale_lines(case, step, target)
        first = insert(Draft.of(module), module, lines, before=target.statement)
        draft = move(first, module, [statement], before=target.statement, asked=asked)
        yield candidate(f"unscale and {title}", draft)


def guard_clip(case: Case) -> Iterator[Candidate]:
    """The clip stays where it is, under the step's own test."""
    yield from _guarded(case, "clip only at the window's end")


def clip_when_synchronised(case: Case) -> Iterator[Candidate]:
    """Under Accelerate: clip only when ``accelerator.sync_gradients``."""
    yield from _synchronised(case, "clip only when the gradients are complete")


# --- zero_grad ----------------------------------------------------------------------------------------------------


def delete_early_zero(case: Case) -> Iterator[Candidate]:
    """The window's end zeroes the gradients as well: the early one goes."""
    record, step = case.record, _step(case)
    own = _own(case)
    following = next_backward(case.trace, step.index, _owner(case))
    stop = following.index if following else len(case.trace.records)
    if not any(
        isinstance(r.event, ev.ZeroGrad) and r.event.site != record.event.site
        for r in case.trace.between(step.index, stop)
    ):
        raise Cannot("nothing else zeroes the gradients")
    yield candidate(
        "zero the gradients once per window",
        delete(Draft.of(own.module), own.module, [_whole(own).statement]),
    )


def zero_after_step(case: Case) -> Iterator[Candidate]:
    """`zero_grad` goes behind the step, and behind the update that follows it."""
    step = _step(case)
    own = _own(case)
    target = _behind(case, step)
    module, (statement, asked) = own.module, with_options(case, case.record, _whole(own), target)
    keeps_its_meaning(module, statement, target)
    draft = move(Draft.of(module), module, [statement], after=target.statement, asked=asked)
    yield candidate("zero the gradients after the step", draft)
    yield candidate(
        "zero the gradients after the step, and step at the end of each epoch as well",
        with_tail(draft, target),
        doubt=TAIL,
    )


def zero_before_window(case: Case) -> Iterator[Candidate]:
    """`zero_grad` goes in front of the loop over the window's micro-batches."""
    own = _own(case)
    loop = out_of_loops(case, own, _step(case))
    if loop.statement is own.statement:
        raise Cannot("the window is not a loop of its own")
    module, (statement, asked) = own.module, with_options(case, case.record, _whole(own), loop)
    keeps_its_meaning(module, statement, loop)
    draft = move(Draft.of(module), module, [statement], before=loop.statement, asked=asked)
    yield candidate("zero the gradients before the window", draft)


def _whole(place: Place) -> Place:
    """The statement, or the loop over parameters that holds nothing else."""
    statement = place.statement
    parent = place.module.parent(statement)
    while isinstance(parent, (ast.For, ast.If)) and len(parent.body) == 1 and not parent.orelse:
        if isinstance(parent, ast.For):
            return Place(place.module, parent)
        parent = place.module.parent(parent)
    return place


# --- schedules ----------------------------------------------------------------------------------------------------


def schedule_at_boundary(case: Case) -> Iterator[Candidate]:
    """The schedule advances behind the step, and behind the update that follows it."""
    step = _step(case)
    own, target = _own(case), _behind(case, step)
    statement, asked = with_options(case, case.record, own, target)
    keeps_its_meaning(own.module, statement, target)
    draft = move(Draft.of(own.module), own.module, [statement], after=target.statement, asked=asked)
    yield candidate("advance the schedule after the step", draft)


def schedule_when_synchronised(case: Case) -> Iterator[Candidate]:
    """Under Accelerate: advance only when ``accelerator.sync_gradients``."""
    yield from _synchronised(case, "advance the schedule only when the optimizer steps")


# --- shared -------------------------------------------------------------------------------------------------------


def _owner(case: Case) -> str:
    match case.record.event:
        case ev.Clip(owners=owners) | ev.ZeroGrad(owners=owners):
            for owner in owners:
                if next_step(case.trace, case.record.index, owner):
                    return owner
        case ev.ScheduleStep(optimizers=owners):
            known = [e.optimizer for _, e in case.trace.of(ev.Step)]
            for owner in owners or known[:1]:
                return owner
    raise Cannot("no step follows that it could belong to")


def _step(case: Case) -> Record:
    """The step that ends the window."""
    step = next_step(case.trace, case.record.index, _owner(case))
    if step is None:
        raise Cannot("no step follows that it could belong to")
    return step


def _own(case: Case) -> Place:
    """The statement that is out of place: it must be one of its own."""
    place = case.place(case.record.event.site)
    if not isinstance(place.statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
        raise Cannot("it is part of a larger statement")
    return place


def _target(case: Case, step: Record) -> Place:
    """The statement of a step, or of the call nearest to it in the function where both meet."""
    own = case.place(case.record.event.site)
    for site in reversed(chain(step)):
        place = case.place(site)
        if place.module is own.module:
            return out_of_loops(case, place, case.record)
    raise Cannot("the step stands in another file")


def _behind(case: Case, step: Record) -> Place:
    """The statement of a step, or that of an update which follows it in the same block."""
    target = _target(case, step)
    if not isinstance(step.event, ev.Step) or step.event.scaler is None:
        return target
    update = next_update(case.trace, step.index, step.event.scaler)
    module = target.module
    if update is None or update.event.site.path != step.event.site.path:
        return target
    after = module.statement(update.event.site)
    inside = module.ancestor_in(module.block(target.statement), after) if after else None
    return Place(module, inside) if inside is not None and inside.lineno > target.statement.lineno else target


def _guarded(case: Case, title: str) -> Iterator[Candidate]:
    own = _own(case)
    test = boundary_test(case, _step(case), own)
    if not test:
        raise Cannot("the step waits for no test that could be asked here")
    yield candidate(title, under(Draft.of(own.module), own.module, f"if {test}:", [own.statement]))


def _synchronised(case: Case, title: str) -> Iterator[Candidate]:
    own = _own(case)
    for record, call in case.trace.of(ev.EngineCall):
        if call.library != "accelerate":
            continue
        for module, receiver in written(case, record, "receiver", call.call):
            if module is own.module:
                header = f"if {module.text(receiver)}.sync_gradients:"
                yield candidate(title, under(Draft.of(module), module, header, [own.statement]))
                return
    raise Cannot("no Accelerator is to be seen")
