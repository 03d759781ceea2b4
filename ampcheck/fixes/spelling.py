"""How an object is spelled at a place: the words of another place where they mean the same, and nothing is guessed."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Literal

from ampcheck import events as ev
from ampcheck.fixes.case import Cannot, Case, Place
from ampcheck.fixes.syntax import Function, Module
from ampcheck.trace import Record

__all__ = ["fresh_name", "is_meant_alike", "keeps_its_meaning", "optimizer_at", "scaler_at", "written"]


def scaler_at(case: Case, scaler: str, place: Place) -> str:
    """How to write a scaler at a place."""
    return _spelled(case, place, _scaler_words(case, scaler), f"`{_text(case, scaler)}`")


def optimizer_at(case: Case, optimizer: str, place: Place) -> str:
    """How to write an optimizer at a place."""
    return _spelled(case, place, _optimizer_words(case, optimizer), f"`{_text(case, optimizer)}`")


def _text(case: Case, role: str) -> str:
    known = case.trace.roles.get(role)
    return known.text if known else role


def _spelled(case: Case, place: Place, words: Iterator[tuple[Module, ast.expr]], what: str) -> str:
    seen: set[str] = set()
    for module, expression in words:
        if is_meant_alike(module, expression, place):
            return module.text(expression)
        seen.add(module.text(expression))
    if seen:
        raise Cannot(f"{what} has no name at line {place.statement.lineno}, where it would be needed")
    raise Cannot(f"{what} is nowhere written out: it belongs to a library, or to code that is not to be seen")


def _scaler_words(case: Case, scaler: str) -> Iterator[tuple[Module, ast.expr]]:
    """The expressions whose methods are the scaler's events."""
    for record in case.trace.records:
        match record.event:
            case ev.Unscale(scaler=name) if name == scaler:
                yield from written(case, record, "receiver", "unscale_")
            case ev.Update(scaler=name) if name == scaler:
                yield from written(case, record, "receiver", "update")
            case ev.ReadScale(scaler=name) if name == scaler:
                yield from written(case, record, "receiver", "get_scale")
            case ev.Step(scaler=name) if name == scaler:
                for module, optimizer in written(case, record, "argument", "step"):
                    call = module.parent(optimizer)
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                        yield module, call.func.value
            case ev.Backward(loss=loss) if any(part.scaled_by(scaler) for part in loss.parts):
                yield from _scalings(case, record)


def _scalings(case: Case, record: Record) -> Iterator[tuple[Module, ast.expr]]:
    """The scaler of ``scaler.scale(loss).backward()``, or of the only `scale` in the function."""
    module = case.modules(record.event.site.path)
    statement = module.statement(record.event.site) if module else None
    if module is None or statement is None:
        return
    around = module.function(statement)
    for part in (statement, around):
        found = [
            node.func.value
            for node in ast.walk(part)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "scale"
        ]
        if len({module.text(expression) for expression in found}) == 1:
            yield module, found[0]


def _optimizer_words(case: Case, optimizer: str) -> Iterator[tuple[Module, ast.expr]]:
    for record in case.trace.records:
        match record.event:
            case ev.Step(optimizer=name, scaler=str()) | ev.Unscale(optimizer=name) if name == optimizer:
                yield from written(case, record, "argument", "step", "unscale_")
            case ev.Step(optimizer=name, scaler=None) if name == optimizer:
                yield from written(case, record, "receiver", "step")
            case ev.ZeroGrad(owners=(name,)) if name == optimizer:
                module = case.modules(record.event.site.path)
                call = module.call(record.event.site) if module else None
                if (
                    call is not None
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr == "zero_grad"
                ):
                    role = case.trace.roles.get(optimizer)
                    if (
                        module
                        and role
                        and module.text(call.func.value).endswith(role.text.rsplit(".", 1)[-1])
                    ):
                        yield module, call.func.value


def written(
    case: Case, record: Record, part: Literal["receiver", "argument"], *methods: str
) -> Iterator[tuple[Module, ast.expr]]:
    """The receiver or the first argument of the method call that an event is; a library's own call has another name."""
    module = case.modules(record.event.site.path)
    call = module.call(record.event.site) if module else None
    if (
        module is None
        or call is None
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr not in methods
    ):
        return
    if part == "receiver":
        yield module, call.func.value
    elif call.args and not isinstance(call.args[0], ast.Starred):
        yield module, call.args[0]


# --- whether words mean the same elsewhere -----------------------------------------------------------------------


def is_meant_alike(module: Module, expression: ast.expr, place: Place) -> bool:
    """Whether an expression, written at another place of its file, means the same object there."""
    if module is not place.module or any(
        isinstance(n, (ast.Call, ast.NamedExpr)) for n in ast.walk(expression)
    ):
        return False
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    here, there = module.function(place.statement), module.function(expression)
    if here is there:
        return all(_holds_from(module, name, expression, place.statement) for name in names)
    mine = module.owner(place.statement)
    for name in names:
        if name == "self" and mine is not None and mine is module.owner(expression):
            continue
        if _binds(here, name) or _scope(module, here, name) is not _scope(module, there, name):
            return False
        if _scope(module, here, name) is None:
            return False
    return True


def keeps_its_meaning(module: Module, statement: ast.stmt, target: Place) -> None:
    """Raises `Cannot` where a statement would mean something else elsewhere in its file, or others would miss it."""
    where = f"line {target.statement.lineno}"
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not hasattr(builtins, node.id):
            inner = {n for part in ast.walk(statement) for n in _bound(part)} | _comprehended(statement)
            if node.id not in inner and not is_meant_alike(module, node, target):
                raise Cannot(f"`{node.id}` is not the same at {where}")
    bound = {n for part in ast.walk(statement) if part is not statement for n in _bound(part)}
    if not bound or isinstance(statement, (ast.For, ast.AsyncFor)):
        return
    if module.function(statement) is not module.function(target.statement):
        raise Cannot("its result is used where it stands")
    block = module.block(target.statement)
    last = block[-1].end_lineno or 0
    for node in ast.walk(module.function(statement)):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id not in bound:
            continue
        if not target.statement.lineno <= node.lineno <= last and statement not in module.above(node):
            raise Cannot(f"`{node.id}` is used outside of the window's end")


def _comprehended(statement: ast.stmt) -> frozenset[str]:
    return frozenset(
        name
        for node in ast.walk(statement)
        if isinstance(node, ast.comprehension)
        for name in _targets(node.target)
    )


def _holds_from(module: Module, name: str, source: ast.AST, target: ast.stmt) -> bool:
    """Whether a name of one function means the same at both places: bound before, and not anew between them."""
    function = module.function(target)
    for around in module.enclosing(source):
        if isinstance(around, (ast.For, ast.AsyncFor)) and name in _targets(around.target):
            return around in set(module.enclosing(target))
        if isinstance(around, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return False
    bindings = [n for n in _bindings(function) if name in _bound(n)]
    parameters = _parameters(function)
    lines = sorted((_line(source), target.lineno))
    if any(lines[0] < _line(n) < lines[1] for n in bindings):
        return False
    if name in parameters or any(_line(n) < target.lineno for n in bindings):
        return True
    return not bindings and _scope(module, function, name) is not None


def _scope(module: Module, function: ast.AST, name: str) -> ast.AST | None:
    """The function or module that binds a name as a function sees it."""
    around: ast.AST | None = function
    while around is not None:
        if isinstance(around, Function) and _binds(around, name):
            return around
        around = module.parent(around)
    return None


def _binds(function: ast.AST, name: str) -> bool:
    return name in _parameters(function) or any(name in _bound(node) for node in _bindings(function))


def _parameters(function: ast.AST) -> frozenset[str]:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return frozenset()
    a = function.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return frozenset(argument.arg for argument in every)


def _bindings(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's own body that bind names."""
    pending = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            pending += ast.iter_child_nodes(node)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _bound(node: ast.AST) -> frozenset[str]:
    """The names that a node itself binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return frozenset({node.id})
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return frozenset({node.name})
    if isinstance(node, ast.alias):
        return frozenset({node.asname or node.name.split(".")[0]})
    if isinstance(node, ast.ExceptHandler) and node.name:
        return frozenset({node.name})
    return frozenset()


def _targets(target: ast.expr) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def fresh_name(module: Module, near: ast.stmt, wanted: str) -> str:
    """A name that means nothing yet in a function."""
    taken = {n.id for n in ast.walk(module.function(near)) if isinstance(n, ast.Name)}
    taken |= _parameters(module.function(near))
    return next(n for n in (wanted, *(f"{wanted}_{i}" for i in range(2, 1000))) if n not in taken)
