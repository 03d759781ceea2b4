"""AMP306: one of the two divisions by K goes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, candidate, chain
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.moving import delete
from ampcheck.fixes.syntax import Module

__all__ = ["divide_once"]

MOST = 8
"""Divisions that are tried, those nearest to the fault first."""

DIVIDING = ("div", "div_", "true_divide", "true_divide_")


def divide_once(case: Case) -> Iterator[Candidate]:
    """Each division in the functions that the run passes through is left out in turn."""
    tried = 0
    for module, node in _divisions(case):
        try:
            yield _without(module, node)
        except Cannot:
            continue
        tried += 1
        if tried == MOST:
            return
    if not tried:
        raise Cannot("neither division is written where the run passes: a library or a helper divides")


def _divisions(case: Case) -> Iterator[tuple[Module, ast.AST]]:
    """Divisions, those inside the backward's own statement first, then from the fault upwards and outwards."""
    places = [
        case.place(site) for site in reversed(chain(case.record)) if case.modules(site.path) is not None
    ]
    backwards = [r for r, _ in case.trace.of(ev.Backward)][:1]
    places += [
        case.place(s) for r in backwards for s in reversed(chain(r)) if case.modules(s.path) is not None
    ]
    seen: set[ast.AST] = set()
    for place in places:
        around = place.module.function(place.statement)
        nodes = [n for n in ast.walk(around) if _is_division(n) and n not in seen]
        own = [n for n in nodes if place.statement in (n, *place.module.above(n))]
        before = [n for n in nodes if n not in own and _line(n) <= place.statement.lineno]
        for node in (*own, *sorted(before, key=_line, reverse=True)):
            seen.add(node)
            yield place.module, node
    for place in places:  # helpers that compute the loss
        for node in ast.walk(place.module.tree):
            if _is_division(node) and node not in seen:
                seen.add(node)
                yield place.module, node


def _is_division(node: ast.AST) -> bool:
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return isinstance(node.op, ast.Div)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in DIVIDING
        and len(node.args) == 1
    )


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _without(module: Module, node: ast.AST) -> Candidate:
    """The file without one division: its statement goes where it does nothing else."""
    title = "divide by the number of micro-batches once"
    statement = next(a for a in (node, *module.above(node)) if isinstance(a, ast.stmt))
    if statement is node or _only_divides(statement, node):
        return candidate(title, delete(Draft.of(module), module, [_whole(module, statement)]))
    assert isinstance(node, (ast.BinOp, ast.Call))
    kept = node.left if isinstance(node, ast.BinOp) else node.func.value  # type: ignore[attr-defined]
    (line, start), (last, stop) = module.start(node), module.end(node)
    if line != last:
        raise Cannot("the division fills several lines")
    text = module.lines[line - 1]
    inner = module.text(kept)
    if _needs_brackets(module, kept, node):
        inner = f"({inner})"
    start, stop = _brackets(text, start, stop, kept)
    return candidate(title, Draft.of(module).replace(line, text[: start - 1] + inner + text[stop - 1 :]))


def _only_divides(statement: ast.stmt, node: ast.AST) -> bool:
    """``loss = loss / k`` and ``loss.div_(k)``."""
    if isinstance(statement, ast.Expr):
        return statement.value is node
    if isinstance(statement, ast.Assign) and statement.value is node and len(statement.targets) == 1:
        divided = (
            node.left if isinstance(node, ast.BinOp) else getattr(getattr(node, "func", None), "value", None)
        )
        return divided is not None and ast.unparse(statement.targets[0]) == ast.unparse(divided)
    return False


def _whole(module: Module, statement: ast.stmt) -> ast.stmt:
    """The statement, or the loop over parameters that holds nothing else."""
    parent = module.parent(statement)
    while isinstance(parent, (ast.For, ast.If)) and len(parent.body) == 1 and not parent.orelse:
        if isinstance(parent, ast.For):
            return parent
        parent = module.parent(parent)
    return statement


def _needs_brackets(module: Module, kept: ast.expr, node: ast.AST) -> bool:
    """Whether a sum or the like would fall apart: what stood in brackets keeps them unless it is all there is."""
    if isinstance(kept, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)):
        return False
    parent = module.parent(node)
    return isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript))


def _brackets(text: str, start: int, stop: int, kept: ast.expr) -> tuple[int, int]:
    """Brackets right around the division go with it where what is kept needs none."""
    simple = isinstance(kept, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    grouped = text[start - 2 : start - 1] == "(" and text[stop - 1 : stop] == ")"
    if not (simple and grouped) or start < 2:
        return start, stop
    before = text[: start - 2].rstrip()
    # ``f(x / k)`` is a call's bracket, ``(x / k).backward()`` is not.
    called = bool(before) and (before[-1].isalnum() or before[-1] in "_)]")
    return (
        (start, stop)
        if called and before.split()[-1] not in ("return", "in", "and", "or", "not")
        else (start - 1, stop + 1)
    )
