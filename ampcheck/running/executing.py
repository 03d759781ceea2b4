"""The effects of statements, one small function a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import PLAIN, Unit
from ampcheck.running import emitting
from ampcheck.running import values as v
from ampcheck.running.arithmetic import binary, coerce, is_varying, text_of
from ampcheck.running.attributes import store_attribute
from ampcheck.running.looping import bind_target, counts_batches, iterate
from ampcheck.running.machine import Infeasible, Machine, Signal
from ampcheck.running.naming import names_window
from ampcheck.running.remembering import remembered
from ampcheck.running.roles import freeze, owners_of
from ampcheck.running.truth import atoms_of, is_decided, truth

__all__ = ["assign", "execute"]


def execute(machine: Machine, body: tuple[p.Stmt, ...]) -> None:
    """Run statements in order."""
    for statement in body:
        CASES[type(statement)](machine, statement)


# --- assignment ---------------------------------------------------------------------------------------------------


def _expression(machine: Machine, node: p.ExprStmt) -> None:
    machine.evaluate(node.value)


def _assign(machine: Machine, node: p.Assign) -> None:
    if node.value is None:
        return
    first = node.targets[0]
    if (
        isinstance(first, p.Display)
        and isinstance(node.value, p.Display)
        and len(first.items) == len(node.value.items)
    ):
        items: list[v.Value] = []
        for target, source in zip(first.items, node.value.items, strict=True):
            items.append(_evaluate_named(machine, target, source))
        value: v.Value = v.Seq("tuple", items)
    else:
        value = _evaluate_named(machine, first, node.value)
    for target in node.targets:
        assign(machine, target, value)


def _evaluate_named(machine: Machine, target: p.Expr, source: p.Expr) -> v.Value:
    """A value, knowing the name it is about to get: constructors take it as their role's name."""
    outer = machine.hint
    if not outer or not isinstance(target, p.Name):
        machine.hint = machine.text(target) if isinstance(target, (p.Name, p.Attribute, p.Subscript)) else ""
    elif machine.depth == 0:
        machine.hint = machine.text(target)
    if machine.depth > 0 and outer and isinstance(target, p.Name):
        machine.hint = target.id
    try:
        value = remembered(machine, source, lambda: machine.evaluate(source))
    finally:
        machine.hint = outer
    if isinstance(value, v.Number) and not value.counter and not value.label and isinstance(target, p.Name):
        value = replace(value, label=target.id)
    if isinstance(value, v.Instance) and not value.id:
        value.id = machine.text(target)
    if (
        isinstance(value, v.Number)
        and isinstance(source, p.Constant)
        and isinstance(target, (p.Name, p.Attribute))
    ):
        return v.Number(value.value, label=machine.text(target))
    if (
        _is_anonymous(machine, value)
        and isinstance(source, p.Call)
        and isinstance(target, (p.Name, p.Attribute))
    ):
        _rename(machine, value, target)
    return value


def _is_anonymous(machine: Machine, value: v.Value) -> bool:
    """Whether a value is an object that a call returned and nothing has named yet."""
    if not isinstance(value, v.Unknown) or value.role is not None or value.varying or value.flow is not None:
        return False
    is_window = names_window(value.text) or value.text in machine.setting.windows
    return "(" in value.text and not is_window and not value.argument


def _rename(machine: Machine, value: v.Value, target: p.Expr) -> None:
    """An object built by unseen code is called what its variable is called."""
    assert isinstance(value, v.Unknown)
    name = machine.text(target)
    if value.text not in machine.named:
        machine.named.add(name)
        value.text = name


def assign(machine: Machine, target: p.Expr, value: v.Value) -> None:
    """``target = value``."""
    match target:
        case p.Name() | p.Display() | p.Starred():
            bind_target(machine, target, value)
        case p.Attribute(value=owner, attr=name):
            _assign_attribute(machine, machine.evaluate(owner), name, value, target)
        case p.Subscript(value=owner, index=index):
            container, key = machine.evaluate(owner), coerce(machine, machine.evaluate(index))
            if isinstance(container, v.DictValue):
                literal = key.value if isinstance(key, (v.Const, v.Number)) else text_of(key)
                machine.store(container.items, literal, value)
            elif isinstance(container, v.Seq) and isinstance(key, v.Number) and isinstance(key.value, int):
                if -len(container.items) <= key.value < len(container.items):
                    machine.touch()
                    container.items[key.value] = value
            elif isinstance(container, v.Unknown):
                machine.store(container.attributes, f"[{text_of(key)}]", value)


def _assign_attribute(machine: Machine, owner: v.Value, name: str, value: v.Value, node: p.Expr) -> None:
    if isinstance(owner, v.Unknown) and owner.role is not None:
        owner = owner.role
    match owner:
        case v.Parameters() if name in ("grad", "main_grad"):
            _set_gradient(machine, owner, value, node)
        case v.Parameters() if name == "requires_grad":
            if isinstance(value, v.Truth) and not owner.partial:
                freeze(machine, owner.models, not value.value)
        case v.Gradient() if name == "data":
            _set_gradient(machine, owner.parameters, value, node)
        case v.Model() if name == "require_backward_grad_sync":
            on, guards = truth(machine, value, node.site, text_of(value))
            with machine.guarded(*guards):
                emitting.declare(machine, "sync")
            machine.synchronise(owner.id, on)
        case v.Unknown() if name == "require_backward_grad_sync":
            truth(machine, value, node.site, text_of(value))
        case _:
            store_attribute(machine, owner, name, value)


def _set_gradient(machine: Machine, parameters: v.Parameters, value: v.Value, node: p.Expr) -> None:
    owners, _ = owners_of(machine, parameters)
    if isinstance(value, v.Const) and value.value is None:
        emitting.zero_grad(machine, owners, True, node)
    elif isinstance(value, v.Gradient):
        emitting.edit(machine, value, node)
    elif owners:
        # A gradient made by hand: whatever it is, it is no longer what a backward left.
        emitting.escape(machine, [v.Optimizer(o) for o in owners], "p.grad = ...", node)


def _augmented(machine: Machine, node: p.AugAssign) -> None:
    if isinstance(node.target, p.Attribute) and node.target.attr in ("grad", "data"):
        current = machine.evaluate(node.target)
        if isinstance(current, v.Gradient):
            result = binary(machine, node.op, current, machine.evaluate(node.value), machine.text(node))
            if isinstance(result, v.Gradient):
                emitting.edit(machine, result, node)
            return
    current, operand = machine.evaluate(node.target), machine.evaluate(node.value)
    if isinstance(current, v.Gradient):
        result = binary(machine, node.op, current, operand, machine.text(node))
        if isinstance(result, v.Gradient):
            emitting.edit(machine, result, node)
        return
    number, step = coerce(machine, current), coerce(machine, operand)
    value: v.Value
    if (
        isinstance(number, v.Number)
        and isinstance(step, v.Number)
        and step.unit == PLAIN
        and node.op in ("+", "-")
    ):
        value = binary(machine, node.op, number, step, machine.text(node))
        if isinstance(value, v.Number):
            value = v.Number(value.value, value.unit, "", True, label=machine.text(node.target))
    elif _counts(current, step) and node.op in ("+", "-"):
        # A counter whose start is unknown (a resumed run) counts from 0.
        start = current.offset if isinstance(current, v.Unknown) else 0
        amount = step.value if isinstance(step, v.Number) else 0
        total = start + (amount if node.op == "+" else -amount)
        value = v.Number(total, Unit(), "", True, label=machine.text(node.target))
    else:
        value = binary(machine, node.op, current, operand, machine.text(node))
        if isinstance(value, v.Number) and not value.label:
            value = replace(value, label=machine.text(node.target))
    assign(machine, node.target, value)


def _counts(current: v.Value, step: v.Value) -> bool:
    unknown = (
        isinstance(current, v.Unknown)
        and current.flow is None
        and current.role is None
        and not current.varying
    )
    return unknown and isinstance(step, v.Number) and isinstance(step.value, int)


# --- control ------------------------------------------------------------------------------------------------------


def _if(machine: Machine, node: p.If) -> None:
    test = machine.evaluate(node.test)
    if not is_decided(machine, test) and machine.merge_arms(node):
        return
    # An uneventful run does not jump.
    body_leaves, else_leaves = _leaves(node.body), _leaves(node.orelse)
    leaning = None if body_leaves == else_leaves else else_leaves
    holds, guards = truth(machine, test, node.test.site, machine.text(node.test), leaning)
    if node in machine.layout.gates and any(g.boundary for g in guards):
        # Said of the code, not of this run: the test may never hold in it.
        for declared in machine.setting.declared.values():
            declared.add("step")
    body = node.body if holds else node.orelse
    size = len(machine.guards)
    machine.guards += guards
    machine.execute(body)
    # After ``if test: continue`` the rest of the iteration depends on the test too.
    if not (guards and (body_leaves or else_leaves)):
        del machine.guards[size:]


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


def _for(machine: Machine, node: p.For) -> None:
    iterable = machine.evaluate(node.iterable)
    outer = machine.is_outer(node)
    # Where no backward is in the loop, one item of what cannot be seen stands for all.
    single = not machine.is_over_batches(node) and not outer and not _yields(node)
    counted = counts_batches(iterable)
    machine.loops.append(_window_of(iterable))
    machine.loop_nodes.append(node)
    try:
        for index, value in enumerate(iterate(machine, iterable, node, outer, single=single)):
            begin = partial(bind_target, machine, node.target, value)
            if not _iteration(machine, node, index, counted, begin):
                return
        machine.execute(node.orelse)
    finally:
        machine.loops.pop()
        machine.loop_nodes.pop()


def _yields(node: p.Node) -> bool:
    return any(isinstance(n, p.Yield) for n in p.walk(node))


def _window_of(iterable: v.Value) -> str:
    match iterable:
        case v.Items(kind="enumerate" | "zip", inner=inner):
            return next((w for w in map(_window_of, inner) if w), "")
        case v.Items(window=window):
            return window
        case _:
            return ""


def _iteration(
    machine: Machine, node: p.For | p.While, index: int, counted: bool, begin: Callable[[], None]
) -> bool:
    """One iteration; False when the loop was left by ``break``."""
    size, guards = len(machine.path), len(machine.guards)
    if counted:
        machine.path.append((node.site, index))
        if machine.is_over_batches(node):
            machine.tick += 1
    try:
        begin()
        machine.execute(node.body)
    except Signal as signal:
        if signal.kind == "break":
            return False
        if signal.kind != "continue":
            raise
    finally:
        del machine.path[size:]
        del machine.guards[guards:]
    return True


def _while(machine: Machine, node: p.While) -> None:
    outer = machine.is_outer(node)
    rounds = 2 if outer else machine.setting.batches
    machine.loops.append("")
    try:
        for index in range(rounds):
            test = machine.evaluate(node.test)
            if isinstance(test, (v.Truth, v.Number, v.Const)):
                holds, _ = truth(machine, test, node.test.site)
                if not holds:
                    break
            elif not outer and isinstance(test, v.Unknown) and test.modulus:
                break
            if not _iteration(machine, node, index, True, lambda: None):
                return
        machine.execute(node.orelse)
    finally:
        machine.loops.pop()


def _with(machine: Machine, node: p.With) -> None:
    entered: list[v.Context] = []
    stack_size = len(machine.stacks)
    for expression, target in node.items:
        value = machine.evaluate(expression)
        if isinstance(value, v.Unknown) and value.role is not None:
            value = value.role
        if isinstance(value, v.Context):
            machine.enter(value, expression)
            entered.append(value)
        elif isinstance(value, v.Instance):
            method = machine.evaluate_attribute(value, "__enter__")
            if isinstance(method, v.Bound):
                value = machine.call(method, [], {}, expression)
        if target is not None:
            bind_target(machine, target, value)
    try:
        machine.execute(node.body)
    finally:
        for context in reversed(entered + machine.stacks[stack_size:]):
            machine.leave(context)
        del machine.stacks[stack_size:]


def _try(machine: Machine, node: p.Try) -> None:
    """The body runs; handlers are for what this run does not meet (out of memory, interrupts)."""
    try:
        machine.execute(node.body)
        machine.execute(node.orelse)
    except Signal as signal:
        if signal.kind == "raise" and node.handlers:
            machine.execute(node.handlers[0])
        else:
            machine.execute(node.final)
            raise
    machine.execute(node.final)


def _jump(machine: Machine, kind: str, node: p.Stmt, value: v.Value = v.NONE) -> None:
    """A jump is an event where a test led to it, inside an iteration: the rest of the iteration does not run."""
    machine.touch()
    if machine.guards and machine.path:
        machine.emit(ev.Jump(site=node.site, kind=kind))  # type: ignore[arg-type]
    raise Signal(kind, value)


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
        if name != "*":
            machine.store(machine.frame.names, name, v.Lib(dotted))


def _delete(machine: Machine, node: p.Delete) -> None:
    return


CASES: dict[type, Callable[[Machine, Any], None]] = {
    p.ExprStmt: _expression,
    p.Assign: _assign,
    p.AugAssign: _augmented,
    p.If: _if,
    p.For: _for,
    p.While: _while,
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
