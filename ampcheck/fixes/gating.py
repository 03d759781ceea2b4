"""AMP301: the optimizer steps at the window's end only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, Place, candidate
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.moving import insert, move, under
from ampcheck.fixes.spelling import is_meant_alike, keeps_its_meaning
from ampcheck.fixes.tails import TAIL, counter, with_tail
from ampcheck.trace import Record
from ampcheck.windows import next_update, previous_zero

__all__ = ["step_after_window", "step_under_gate", "step_under_new_gate"]

DOUBT = "it may be the division by the window's length that is not meant"


def step_under_gate(case: Case) -> Iterator[Candidate]:
    """Something else waits for the window's end already: step and update go in front of it."""
    step = _step(case)
    place = case.place(step.event.site)
    statements = _with_update(case, step, place)
    module = place.module
    for record in case.trace.records:
        if not isinstance(record.event, ev.ZeroGrad | ev.ScheduleStep | ev.Clip) or record.micro < step.micro:
            continue
        if (
            not any(g.boundary and g.holds for g in record.guards)
            or case.modules(record.event.site.path) is not module
        ):
            continue
        gated = case.place(record.event.site)
        gate = next((a for a in module.enclosing(gated.statement) if isinstance(a, ast.If)), None)
        if gate is None or gated.statement not in gate.body:
            continue
        target = Place(module, gate.body[0])
        for statement in statements:
            keeps_its_meaning(module, statement, target)
        draft = move(Draft.of(module), module, statements, before=target.statement)
        yield candidate("step only at the window's end", draft)
        zero = _zero(case, step, target)
        if zero is not None and zero is not gated.statement:
            draft = move(draft, module, [zero], before=target.statement)
            yield candidate("step and zero the gradients only at the window's end", draft)
        title = "step only at the end of a window or epoch"
        yield candidate(title, with_tail(draft, target), doubt=TAIL)
        return
    raise Cannot("nothing else waits for the window's end")


def step_after_window(case: Case) -> Iterator[Candidate]:
    """The window is a loop of its own: step and update go behind it, `zero_grad` in front."""
    step = _step(case)
    place = case.place(step.event.site)
    module = place.module
    loop = next((a for a in module.enclosing(place.statement) if isinstance(a, ast.For)), None)
    if loop is None or not any(isinstance(a, (ast.For, ast.While)) for a in module.enclosing(loop)):
        raise Cannot("the window is not a loop of its own")
    statements = _with_update(case, step, place)
    draft = move(Draft.of(module), module, statements, after=loop)
    yield candidate("step after the window's last micro-batch", draft)
    zero = _zero(case, step, Place(module, loop))
    if zero is not None:
        both = move(draft, module, [zero], before=loop)
        yield candidate(
            "step after the window's last micro-batch, and zero the gradients before its first", both
        )


def step_under_new_gate(case: Case) -> Iterator[Candidate]:
    """Step and update go under a new test of the loop's counter."""
    step = _step(case)
    place = case.place(step.event.site)
    module, window = place.module, case.trace.window
    statements = _with_update(case, step, place)
    count = counter(place).passed
    length = next(
        (
            node
            for node in ast.walk(module.function(place.statement))
            if isinstance(node, ast.expr) and window and module.text(node) == window.text
        ),
        None,
    )
    if length is None or not is_meant_alike(module, length, place):
        raise Cannot("the window's length is not written in the function that steps")
    draft = under(Draft.of(module), module, f"if {count} % {module.text(length)} == 0:", statements)
    yield candidate("step only at the window's end", draft, doubt=DOUBT)
    zero = _zero(case, step, place)
    if zero is not None:
        unit = module.unit(place.statement)
        first, last = module.span(zero)
        lines = [unit + module.lines[n - 1].strip() for n in range(first, last + 1)]
        if first == last:
            both = insert(draft, module, lines, after=statements[-1]).delete(first, last)
            yield candidate("step and zero the gradients only at the window's end", both, doubt=DOUBT)


def _step(case: Case) -> Record:
    if not isinstance(case.record.event, ev.Step):
        raise Cannot("it is not a step")
    return case.record


def _with_update(case: Case, step: Record, place: Place) -> list[ast.stmt]:
    """The step's statement, with those behind it up to the scaler's update."""
    assert isinstance(step.event, ev.Step)
    if not isinstance(place.statement, ast.Expr):
        raise Cannot("the step is part of a larger statement")
    module, block = place.module, place.module.block(place.statement)
    update = next_update(case.trace, step.index, step.event.scaler) if step.event.scaler else None
    if update is None or update.micro != step.micro:
        return [place.statement]
    after = module.statement(update.event.site)
    inside = module.ancestor_in(block, after) if after and update.event.site.path == module.path else None
    if inside is None:
        raise Cannot("step and update do not stand in one block")
    return block[block.index(place.statement) : block.index(inside) + 1]


def _zero(case: Case, step: Record, place: Place) -> ast.stmt | None:
    """The statement that zeroes the gradients on every micro-batch, in the function of a place."""
    assert isinstance(step.event, ev.Step)
    record = previous_zero(case.trace, step.index, step.event.optimizer)
    if record is None or case.modules(record.event.site.path) is not place.module:
        return None
    statement = place.module.statement(record.event.site)
    same = statement is not None and place.module.function(statement) is place.module.function(
        place.statement
    )
    return statement if same and isinstance(statement, ast.Expr) else None
