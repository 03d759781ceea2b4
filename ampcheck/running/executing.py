"""The effects of statements, one small function a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.assigning import run_assign, run_augmented
from ampcheck.running.describing import is_varying
from ampcheck.running.importing import imported, starred
from ampcheck.running.looping import bind_target
from ampcheck.running.loops import run_for, run_while
from ampcheck.running.machine import Infeasible, Machine, Signal
from ampcheck.running.picking import picks_parameters
from ampcheck.running.truth import atoms_of, is_decided, suppose, truth
from ampcheck.trace import Guard

__all__ = ["execute"]


def execute(machine: Machine, body: tuple[p.Stmt, ...]) -> None:
    """Run statements in order."""
    machine.work += len(body)
    for statement in body:
        CASES[type(statement)](machine, statement)


def _expression(machine: Machine, node: p.ExprStmt) -> None:
    machine.evaluate(node.value)


# --- control ------------------------------------------------------------------------------------------------------


def _if(machine: Machine, node: p.If) -> None:
    test = machine.evaluate(node.test)
    picked = machine.picked
    machine.picked = picked or picks_parameters(machine, node.test)
    if not is_decided(machine, test) and machine.merge_arms(node):
        machine.picked = picked
        return
    # An uneventful run does not jump.
    body_leaves, else_leaves = _leaves(node.body), _leaves(node.orelse)
    leaning = None if body_leaves == else_leaves else else_leaves
    if _raises(node.body) != _raises(node.orelse):
        leaning = _raises(node.orelse)  # ``elif kind == "b": return b`` before ``else: raise``
    refuses = _refuses(node.body) or _refuses(node.orelse)
    if refuses and machine.trial is None:
        suppose(machine, test, _refuses(node.orelse))
    holds, guards = truth(machine, test, node.test.site, machine.text(node.test), leaning)
    if node in machine.layout.gates and any(g.boundary for g in guards):
        # Said of the code, not of this run: the test may never hold in it.
        for declared in machine.setting.declared.values():
            declared.add("step")
    body = node.body if holds else node.orelse
    size = len(machine.guards)
    if not (refuses and _are_settled(guards)):
        machine.guards += guards
    machine.execute(body)
    # After ``if test: continue`` the rest of the iteration depends on the test too.
    if not (guards and (body_leaves or else_leaves)):
        del machine.guards[size:]
    if not (body_leaves or else_leaves):
        machine.picked = picked


def _refuses(body: tuple[p.Stmt, ...]) -> bool:
    """Whether a block only refuses to go on; what it prepares for that is of no interest."""
    return _raises(body) and all(isinstance(s, (p.Raise, p.ExprStmt, p.Assign)) for s in body)


def _are_settled(guards: list[Guard]) -> bool:
    """Whether nothing in a test differs between micro-batches."""
    return not any(guard.varying or guard.boundary for guard in guards)


def _raises(body: tuple[p.Stmt, ...]) -> bool:
    return bool(body) and isinstance(body[-1], p.Raise)


def _leaves(body: tuple[p.Stmt, ...]) -> bool:
    """Whether a block can end in a jump out of it."""
    for statement in body:
        match statement:
            case p.Continue() | p.Break() | p.Return() | p.Raise():
                return True
            case p.If(body=inner, orelse=orelse):
                if _leaves(inner) or _leaves(orelse):
                    return True
            case p.With(body=inner):
                if _leaves(inner):
                    return True
    return False


def _with(machine: Machine, node: p.With) -> None:
    entered: list[v.Context] = []
    objects: list[tuple[v.Instance, p.Expr]] = []
    stack_size = len(machine.stacks)
    for expression, target in node.items:
        value = machine.evaluate(expression)
        if isinstance(value, v.Unknown) and value.role is not None:
            value = value.role
        if isinstance(value, v.Context):
            machine.enter(value, expression)
            entered.append(value)
        elif isinstance(value, v.Instance):
            objects.append((value, expression))
            method = machine.evaluate_attribute(value, "__enter__")
            if isinstance(method, v.Bound):
                value = machine.call(method, [], {}, expression)
        if target is not None:
            bind_target(machine, target, value)
    try:
        machine.execute(node.body)
    except Signal:
        _exit(machine, [*objects, *_stacked(machine, stack_size, node)])
        raise
    else:
        _exit(machine, [*objects, *_stacked(machine, stack_size, node)])
    finally:
        for context in reversed([*entered, *machine.stacks[stack_size:]]):
            if isinstance(context, v.Context):
                machine.leave(context)
        del machine.stacks[stack_size:]


def _stacked(machine: Machine, size: int, node: p.With) -> list[tuple[v.Instance, p.Expr]]:
    """The objects that an ExitStack was given to leave."""
    return [(o, node.items[-1][0]) for o in machine.stacks[size:] if isinstance(o, v.Instance)]


def _exit(machine: Machine, objects: list[tuple[v.Instance, p.Expr]]) -> None:
    for value, expression in reversed(objects):
        method = machine.evaluate_attribute(value, "__exit__")
        if isinstance(method, v.Bound):
            machine.call(method, [v.NONE, v.NONE, v.NONE], {}, expression)


def _try(machine: Machine, node: p.Try) -> None:
    """The body runs; handlers are for what this run does not meet (out of memory, interrupts)."""
    sheltering = bool(node.handlers and machine.path)
    machine.sheltered += sheltering
    try:
        machine.execute(node.body)
        machine.execute(node.orelse)
    except Signal as signal:
        if signal.kind == "raise" and node.handlers:
            machine.execute(node.handlers[0])
        else:
            machine.execute(node.final)
            raise
    finally:
        machine.sheltered -= sheltering
    machine.execute(node.final)


def _jump(machine: Machine, kind: str, node: p.Stmt, value: v.Value = v.NONE) -> None:
    """A jump is an event where a test led to it, inside an iteration: the rest of the iteration does not run."""
    machine.touch()
    in_model = machine.program.is_model(node.site.path)  # a library's own: nothing of the user's is skipped
    if machine.guards and machine.path and not in_model and _skips_events(machine, kind):
        machine.emit(ev.Jump(site=node.site, kind=kind))  # type: ignore[arg-type]
    raise Signal(kind, value)


def _skips_events(machine: Machine, kind: str) -> bool:
    """Whether something can depend on a jump: a return from a function that computes a rate skips nothing."""
    inside = machine.active[-1] if machine.active else None
    return kind in ("continue", "break") or inside is None or inside in machine.layout.eventful


def _return(machine: Machine, node: p.Return) -> None:
    value = machine.evaluate(node.value) if node.value is not None else v.NONE
    if node in machine.layout.tails:
        raise Signal("return", value)
    _jump(machine, "return", node, value)


def _raise(machine: Machine, node: p.Raise) -> None:
    machine.touch()
    if not machine.path:
        # Argument checks: ``if accum < 1: raise ValueError`` says what does not happen.  One that this run meets only
        # because of the small numbers it chose (``if batch % accum: raise``) says nothing.
        if any(not guard.boundary for guard in machine.guards):
            raise Infeasible
        return
    _jump(machine, "raise", node)


def _assert(machine: Machine, node: p.Assert) -> None:
    test = machine.evaluate(node.test)
    if is_varying(test) or not atoms_of(test) or isinstance(test, v.Unknown):
        return  # numbers are this run's own choice: ``assert last`` after a loop proves nothing
    if machine.trial is None:
        suppose(machine, test, True)
    holds, _ = truth(machine, test, node.test.site)
    if not holds:
        raise Infeasible


# --- definitions --------------------------------------------------------------------------------------------------


def _function(machine: Machine, node: p.FunctionDef) -> None:
    value: v.Value = v.Function(node, machine.frame, machine.frame.owner)
    machine.store(machine.frame.names, node.name, value)


def _class(machine: Machine, node: p.ClassDef) -> None:
    bases = tuple(machine.evaluate(base) for base in node.bases)
    cls = v.Class(node, machine.frame, bases=bases)
    for statement in node.body:
        match statement:
            case p.FunctionDef(name=name):
                cls.members[name] = v.Function(statement, machine.frame, cls)
            case p.Assign(targets=targets, value=value) if value is not None:
                for target in targets:
                    if isinstance(target, p.Name):
                        cls.members[target.id] = machine.evaluate(value)
    machine.store(machine.frame.names, node.name, cls)


def _import(machine: Machine, node: p.Import) -> None:
    for name, dotted in node.names:
        if name == "*":
            for star, value in starred(machine, node.site.path):
                machine.store(machine.frame.names, star, value)
        else:
            machine.store(machine.frame.names, name, imported(machine, node.site.path, dotted))


def _delete(machine: Machine, node: p.Delete) -> None:
    return


CASES: dict[type, Callable[[Machine, Any], None]] = {
    p.ExprStmt: _expression,
    p.Assign: run_assign,
    p.AugAssign: run_augmented,
    p.If: _if,
    p.For: run_for,
    p.While: run_while,
    p.With: _with,
    p.Try: _try,
    p.Return: _return,
    p.Break: lambda machine, node: _jump(machine, "break", node),
    p.Continue: lambda machine, node: _jump(machine, "continue", node),
    p.Raise: _raise,
    p.Assert: _assert,
    p.FunctionDef: _function,
    p.ClassDef: _class,
    p.Import: _import,
    p.Delete: _delete,
}
