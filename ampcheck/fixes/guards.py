"""Under which tests an event runs that another place does not ask, and how to ask them there."""

from __future__ import annotations

import ast

from ampcheck.fixes.case import Cannot, Case, Place, chain
from ampcheck.fixes.spelling import is_meant_alike
from ampcheck.fixes.syntax import Module
from ampcheck.trace import Guard, Record

__all__ = ["boundary_test", "condition", "negated", "out_of_loops", "with_options"]


def condition(case: Case, record: Record, place: Place, inside: ast.stmt | None = None) -> str:
    """The options that must be on (or off) for an event, and that nothing asks at a place: ``scaler is not None``.

    Empty where there are none.  Raises `Cannot` where one cannot be asked at the place.  Those `inside` a statement
    do not count.
    """
    asked: list[str] = []
    for module, test, holds, guards in _tests(case, record, place):
        if inside is not None and inside in module.above(test):
            continue
        if any(g.varying or g.boundary for g in guards) or not (guards or _is_option(test)):
            continue
        if not is_meant_alike(module, test, place):
            raise Cannot(f"`{module.text(test)}` cannot be asked at line {place.statement.lineno}")
        asked.append(_part(module, test, holds))
    return " and ".join(dict.fromkeys(asked))


def boundary_test(case: Case, record: Record, place: Place) -> str:
    """The test of the window's end that an event waits for, as it can be asked at a place; "" for none."""
    for module, test, holds, guards in _tests(case, record, place):
        if any(g.boundary for g in guards):
            if not holds or not is_meant_alike(module, test, place):
                raise Cannot(f"`{module.text(test)}` cannot be asked at line {place.statement.lineno}")
            return module.text(test)
    return ""


def with_options(case: Case, record: Record, own: Place, target: Place) -> tuple[ast.stmt, str]:
    """What has to move with a statement: the options around it that the target is not under.

    They come as the ``if`` itself, where it holds nothing but such events, and else as a test to be asked again.
    """
    module, statement = own.module, own.statement
    shared = {target.statement, *target.module.above(target.statement)}
    kind = type(record.event)
    alike = {
        found
        for r in case.trace.records
        if isinstance(r.event, kind) and r.event.site.path == module.path
        if (found := module.statement(r.event.site)) is not None
    }
    for around in module.enclosing(own.statement):
        if (
            not isinstance(around, ast.If)
            or around in shared
            or around.orelse
            or _waits(module, around, record)
        ):
            break
        if not all(inner is statement or inner in alike for inner in around.body):
            break
        statement = around
    return statement, condition(case, record, target, inside=statement)


def _waits(module: Module, around: ast.If, record: Record) -> bool:
    """Whether a test is one of the window's end, or of one batch."""
    first, last = module.start(around.test)[0], module.end(around.test)[0]
    return any(
        (g.boundary or g.varying) and g.site.path == module.path and first <= g.site.line <= last
        for g in record.guards
    )


def _tests(case: Case, record: Record, place: Place) -> list[tuple[Module, ast.expr, bool, list[Guard]]]:
    """The ``if`` statements around an event and the calls that lead to it, outermost first; none of a place's."""
    shared = {place.statement, *place.module.above(place.statement)}
    found: list[tuple[Module, ast.expr, bool, list[Guard]]] = []
    for site in chain(record):
        module = case.modules(site.path)
        statement = module.statement(site) if module else None
        if module is None or statement is None:
            continue
        within: ast.AST = statement
        inner = []
        for around in module.enclosing(statement):
            if isinstance(around, ast.If) and around not in shared:
                first, last = module.start(around.test)[0], module.end(around.test)[0]
                guards = [
                    g for g in record.guards if g.site.path == module.path and first <= g.site.line <= last
                ]
                inner.append((module, around.test, within in around.body, guards))
            within = around
        found += reversed(inner)
    return found


def _is_option(test: ast.expr) -> bool:
    """Whether a test that was answered elsewhere is one of options and what they made: ``scaler is not None``."""
    parts = (ast.Name, ast.Attribute, ast.Compare, ast.Constant, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not)
    return all(isinstance(node, (*parts, ast.Is, ast.IsNot, ast.expr_context)) for node in ast.walk(test))


def _part(module: Module, test: ast.expr, holds: bool) -> str:
    if not holds:
        return negated(module, test)
    return f"({module.text(test)})" if isinstance(test, (ast.BoolOp, ast.IfExp)) else module.text(test)


def negated(module: Module, test: ast.expr) -> str:
    """The opposite of a test, as people write it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return module.text(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        opposite = {ast.Is: "is not", ast.IsNot: "is", ast.Eq: "!=", ast.NotEq: "=="}.get(type(test.ops[0]))
        if opposite:
            return f"{module.text(test.left)} {opposite} {module.text(test.comparators[0])}"
    simple = isinstance(test, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"not {module.text(test)}" if simple else f"not ({module.text(test)})"


def out_of_loops(case: Case, place: Place, *shared: Record) -> Place:
    """The statement at a place, or the outermost loop around it that does not hold the events given as well."""
    module = place.module
    inside = {
        around
        for record in shared
        for site in chain(record)
        if site.path == module.path and (statement := module.statement(site)) is not None
        for around in (statement, *module.enclosing(statement))
    }
    found = place.statement
    for around in module.enclosing(place.statement):
        if isinstance(around, (ast.For, ast.AsyncFor, ast.While)):
            if around in inside:
                break
            found = around
    return Place(module, found)
