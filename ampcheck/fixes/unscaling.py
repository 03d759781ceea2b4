"""AMP101 and AMP105: `unscale_` where the gradients are complete, and before anything looks at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, Place, candidate, chain
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.guards import condition, out_of_loops
from ampcheck.fixes.moving import delete, insert, move
from ampcheck.fixes.spelling import is_meant_alike, optimizer_at, scaler_at, written
from ampcheck.trace import Record
from ampcheck.windows import next_step, previous_backward

__all__ = ["delete_early_unscale", "insert_unscale", "move_early_unscale", "move_unscale", "unscale_lines"]

_LOOKS = (ev.Clip, ev.Read, ev.Edit)


def move_unscale(case: Case) -> Iterator[Candidate]:
    """`unscale_` is there, behind the clip or under another test: put it before the clip."""
    clip, found = case.record, False
    for step in _steps(case):
        here = _first_look(case, clip, step)
        place, _ = case.meet(here, step)
        place = out_of_loops(case, place, step)
        module = place.module
        for call in _calls(place, "unscale_"):
            statement = next(a for a in module.above(call) if isinstance(a, ast.stmt))
            if not isinstance(statement, ast.Expr) or statement is place.statement:
                continue
            target = place.statement
            if statement.lineno < target.lineno:
                outer = module.ancestor_in(module.block(target), statement)
                if outer is None or outer is statement:
                    continue
                target = outer
            found = True
            yield candidate(
                f"call {module.text(call)} before the clip",
                move(Draft.of(module), module, [statement], before=target),
            )
    if not found:
        raise Cannot("there is no `unscale_` to be moved")


def insert_unscale(case: Case) -> Iterator[Candidate]:
    """Call `unscale_` before the clip, or before its norm is taken."""
    frames = 1 + len(case.record.calls)
    reasons: list[Cannot] = []
    for frame in range(frames):
        try:
            yield _inserted(case, frame)
        except Cannot as reason:
            reasons.append(reason)
    if reasons:
        raise reasons[0]


def _inserted(case: Case, frame: int) -> Candidate:
    """In the function where clip and step meet (frame 0), or so many calls nearer to the clip."""
    draft: Draft | None = None
    texts: list[str] = []
    for step in _steps(case):
        here = _first_look(case, case.record, step)
        place, _ = case.meet(here, step)
        if frame:
            sites = chain(here)
            inner = len(sites) - frame
            if inner < 0 or case.place(sites[inner]).statement is place.statement:
                raise Cannot("there is no further function between")
            place = case.place(sites[inner])
        place = out_of_loops(case, place, step)
        lines = unscale_lines(case, step, place)
        if lines[-1].strip() not in texts:  # one loop over the optimizers serves them all
            draft = insert(draft or Draft.of(place.module), place.module, lines, before=place.statement)
            texts.append(lines[-1].strip())
    if draft is None:
        raise Cannot("the step that uses these gradients is not to be seen")
    return candidate(f"call {' and '.join(texts)} before the clip", draft)


def unscale_lines(case: Case, step: Record, place: Place) -> list[str]:
    """The call of `unscale_` for a step, under the options that the step itself depends on."""
    if not isinstance(step.event, ev.Step) or step.event.scaler is None:
        raise Cannot("the step does not go through a scaler")
    scaler = scaler_at(case, step.event.scaler, place)
    header, optimizer = _optimizer_or_loop(case, step, place)
    lines = [*header, f"{scaler}.unscale_({optimizer})"]
    asked = condition(case, step, place)
    if asked:
        lines.insert(0, f"if {asked}:")
    unit = place.module.unit(place.statement)
    return [unit * depth + line for depth, line in enumerate(lines)]


def _optimizer_or_loop(case: Case, step: Record, place: Place) -> tuple[list[str], str]:
    """The optimizer at a place; where the step's loop gives it a name, with the header of that loop."""
    assert isinstance(step.event, ev.Step)
    try:
        return [], optimizer_at(case, step.event.optimizer, place)
    except Cannot:
        for module, argument in written(case, step, "argument", "step"):
            loop = next((a for a in module.enclosing(argument) if isinstance(a, ast.For)), None)
            if loop is None or not isinstance(loop.target, ast.Name) or not isinstance(argument, ast.Name):
                continue
            if argument.id == loop.target.id and is_meant_alike(module, loop.iter, place):
                return [f"for {argument.id} in {module.text(loop.iter)}:"], argument.id
        raise


def move_early_unscale(case: Case) -> Iterator[Candidate]:
    """`unscale_` runs before the window's last backward: it goes to the step, before what looks at the gradients."""
    record = case.record
    step = _step_after(case, record)
    last = previous_backward(case.trace, step.index, _optimizer(record))
    targets = [
        r
        for r in case.trace.between(last.index if last else record.index, step.index)
        if isinstance(r.event, _LOOKS) and _optimizer(record) in r.event.owners
    ]
    for target in (*targets[:1], step):
        place, anchor = case.meet(record, target)
        if (
            chain(record)[-1] != record.event.site
            or case.place(record.event.site).statement is not place.statement
        ):
            raise Cannot("it happens in another function than the step")
        module = place.module
        statements = [place.statement]
        block = module.block(place.statement)
        following = block[block.index(place.statement) + 1 :]
        draft = move(Draft.of(module), module, statements, before=anchor.statement)
        yield candidate("unscale after the window's last backward", draft)
        if following and following[0] is not anchor.statement:
            together = move(Draft.of(module), module, [*statements, following[0]], before=anchor.statement)
            yield candidate("unscale and clip after the window's last backward", together)


def delete_early_unscale(case: Case) -> Iterator[Candidate]:
    """There is an `unscale_` at the right place as well: the early one goes."""
    record = case.record
    step = _step_after(case, record)
    again = any(
        isinstance(r.event, ev.Unscale) and r.event.site != record.event.site
        for r in case.trace.between(record.index, step.index)
    )
    if not again:
        raise Cannot("there is no other `unscale_` at the window's end")
    place = case.place(record.event.site)
    yield candidate(
        "unscale once, at the window's end", delete(Draft.of(place.module), place.module, [place.statement])
    )


def _optimizer(record: Record) -> str:
    if not isinstance(record.event, ev.Unscale):
        raise Cannot("it is not an `unscale_` that is out of place")
    return record.event.optimizer


def _step_after(case: Case, record: Record) -> Record:
    step = next_step(case.trace, record.index, _optimizer(record))
    if step is None:
        raise Cannot("the step that uses these gradients is not to be seen")
    return step


def _steps(case: Case) -> list[Record]:
    """The steps through a scaler that use the gradients clipped, each optimizer's next."""
    clip = case.record.event
    if not isinstance(clip, ev.Clip):
        raise Cannot("it is not a clip that is out of place")
    steps = [next_step(case.trace, case.record.index, owner) for owner in clip.owners]
    found = [
        s for s in steps if s is not None and isinstance(s.event, ev.Step) and s.event.scaler is not None
    ]
    if not found:
        raise Cannot("no step through a scaler follows")
    if clip.by == "hook":
        raise Cannot("it runs in a hook, while the gradients are still being computed")
    return found


def _first_look(case: Case, clip: Record, step: Record) -> Record:
    """The first event after the last backward that looks at the gradients to be clipped."""
    optimizer = step.event.optimizer if isinstance(step.event, ev.Step) else ""
    last = previous_backward(case.trace, clip.index, optimizer)
    looks = (
        r
        for r in case.trace.between(last.index if last else -1, clip.index)
        if isinstance(r.event, _LOOKS) and optimizer in r.event.owners
    )
    return next(looks, clip)


def _calls(place: Place, method: str) -> list[ast.Call]:
    """The calls of a method in a function, in order."""
    around = place.module.function(place.statement)
    return [
        node
        for node in ast.walk(around)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
        and place.module.function(node) is around
    ]
