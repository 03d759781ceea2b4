"""AMP113 and AMP114: what was scaled is stepped through the scaler, and what the scaler steps was scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, Place, candidate
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.guards import condition
from ampcheck.fixes.moving import insert
from ampcheck.fixes.spelling import is_meant_alike, scaler_at
from ampcheck.fixes.syntax import Module
from ampcheck.fixes.updating import after_step
from ampcheck.gradients import Contribution
from ampcheck.trace import Record
from ampcheck.windows import carried_scales, next_backward

__all__ = ["differentiate_scaled", "scale_loss", "step_through_scaler"]


def step_through_scaler(case: Case) -> Iterator[Candidate]:
    """``optimizer.step()`` becomes ``scaler.step(optimizer)``, and `update` follows where none does."""
    record = case.record
    if not isinstance(record.event, ev.Step):
        raise Cannot("it is not a step")
    backward = _scaled_backward(case)
    if backward is not None and backward.event.site in record.calls:
        raise Cannot("it runs in a hook, while other gradients are still being computed")
    place = case.place(record.event.site)
    module = place.module
    call = module.call(record.event.site)
    if call is None or not isinstance(call.func, ast.Attribute) or call.args or call.keywords:
        raise Cannot("the step is not written as `optimizer.step()`")
    scalers = carried_scales(record.before, record.event.optimizer)
    if len(scalers) != 1:
        raise Cannot("the gradients carry the scales of several scalers")
    scaler = scaler_at(case, next(iter(scalers)), place)
    step = f"{scaler}.step({module.text(call.func.value)})"
    asked = condition(case, backward, place) if backward else ""
    needs_update = not _is_updated(case, record, next(iter(scalers)))
    title = f"call {step}" + (" and update the scale" if needs_update else "")
    draft = Draft.of(module)
    if not asked:
        draft = _replaced(draft, module, call, step)
        yield candidate(title, after_step(case, draft, place, record, scaler) if needs_update else draft)
        return
    statement = place.statement
    if not isinstance(statement, ast.Expr) or module.span(statement)[0] != module.span(statement)[1]:
        raise Cannot("the step is not a statement of its own")
    unit, indent = module.unit(statement), module.indent(statement)
    lines = [f"if {asked}:", unit + step, *([f"{unit}{scaler}.update()"] if needs_update else []), "else:"]
    draft = insert(draft, module, lines, before=statement)
    line = statement.lineno
    yield candidate(title, draft.indent(line, line, indent, indent + unit))


def scale_loss(case: Case) -> Iterator[Candidate]:
    """``loss.backward()`` becomes ``scaler.scale(loss).backward()``."""
    step = case.record
    draft: Draft | None = None
    for backward in _plain_backwards(case):
        place, call, value = _receiver(case, backward)
        module = place.module
        scaler = scaler_at(case, _scaler(step), place)
        scaled = f"{scaler}.scale({module.text(value)})"
        asked = condition(case, step, place)
        if draft is not None and draft.path != module.path:
            raise Cannot("the backwards stand in several files")
        draft = draft or Draft.of(module)
        if not asked:
            draft = _with_receiver(draft, module, call, scaled)
            continue
        statement = place.statement
        if not isinstance(statement, ast.Expr) or module.span(statement)[0] != module.span(statement)[1]:
            raise Cannot("the backward is not a statement of its own")
        unit, indent = module.unit(statement), module.indent(statement)
        line = statement.lineno
        new = _with_receiver(Draft.of(module), module, call, scaled)
        text = next(x.text for x in new.lines if x.origin == line).split("#")[0].strip()
        draft = insert(draft, module, [f"if {asked}:", unit + text, "else:"], before=statement)
        draft = draft.indent(line, line, indent, indent + unit)
    if draft is not None:
        yield candidate("differentiate the scaled loss", draft)


def differentiate_scaled(case: Case) -> Iterator[Candidate]:
    """A variable holds the scaled loss already: that is what is differentiated."""
    for backward in _plain_backwards(case):
        place, call, value = _receiver(case, backward)
        module = place.module
        for node in ast.walk(module.function(place.statement)):
            if not (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
            ):
                continue
            made = node.value
            if not (
                isinstance(made, ast.Call)
                and isinstance(made.func, ast.Attribute)
                and made.func.attr == "scale"
            ):
                continue
            name = node.targets[0]
            same = made.args and ast.dump(made.args[0]) == ast.dump(value)
            if same and node.lineno < place.statement.lineno and is_meant_alike(module, name, place):
                draft = _with_receiver(Draft.of(module), module, call, name.id)
                yield candidate("differentiate the scaled loss", draft)
                return
    raise Cannot("no variable holds the scaled loss")


def _plain_backwards(case: Case) -> list[Record]:
    step = case.record
    if not isinstance(step.event, ev.Step) or step.event.scaler is None:
        raise Cannot("it is not a step through a scaler")
    buffer = step.before.buffer(step.event.optimizer)
    plain = [c.record for c in buffer.contributions if c.record >= 0 and not _is_scaled(c)]
    found = {case.trace.records[i].event.site: case.trace.records[i] for i in plain}
    if not found:
        raise Cannot("the backward of the plain loss is not to be seen")
    return list(found.values())


def _is_scaled(contribution: Contribution) -> bool:
    return contribution.unit.is_scaled


def _receiver(case: Case, backward: Record) -> tuple[Place, ast.Call, ast.expr]:
    place = case.place(backward.event.site)
    call = place.module.call(backward.event.site)
    if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        raise Cannot("the backward is not written as `loss.backward()`")
    if isinstance(call.func.value, ast.Attribute) and call.func.value.attr == "autograd":
        raise Cannot("the backward is not written as `loss.backward()`")
    return place, call, call.func.value


def _scaler(step: Record) -> str:
    if not isinstance(step.event, ev.Step) or step.event.scaler is None:
        raise Cannot("it is not a step through a scaler")
    return step.event.scaler


def _with_receiver(draft: Draft, module: Module, call: ast.Call, text: str) -> Draft:
    """``X.method(...)`` with another text for X and whatever brackets stand around it."""
    assert isinstance(call.func, ast.Attribute)
    (line, start), (last, stop) = module.start(call), module.end(call.func)
    if line != last:
        raise Cannot("the call's receiver fills several lines")
    dot = module.lines[line - 1].rindex(".", 0, stop - 1)
    old = module.lines[line - 1]
    return draft.replace(line, old[: start - 1] + text + old[dot:])


def _replaced(draft: Draft, module: Module, call: ast.Call, text: str) -> Draft:
    (line, start), (last, stop) = module.start(call), module.end(call)
    if line != last:
        raise Cannot("the call fills several lines")
    old = module.lines[line - 1]
    return draft.replace(line, old[: start - 1] + text + old[stop - 1 :])


def _scaled_backward(case: Case) -> Record | None:
    return next((r for r in case.story if isinstance(r.event, ev.Backward)), None)


def _is_updated(case: Case, step: Record, scaler: str) -> bool:
    """Whether the run updates the scaler before the next backward."""
    optimizer = step.event.optimizer if isinstance(step.event, ev.Step) else ""
    following = next_backward(case.trace, step.index, optimizer)
    stop = following.index if following else len(case.trace.records)
    return any(
        isinstance(r.event, ev.Update) and r.event.scaler == scaler
        for r in case.trace.between(step.index, stop)
    )
