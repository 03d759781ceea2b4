"""Assignments: names, attributes and items, counters, gradients set by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from ampcheck import program as p
from ampcheck.events import PLAIN, Unit
from ampcheck.running import emitting, norms
from ampcheck.running import values as v
from ampcheck.running.arithmetic import binary, coerce
from ampcheck.running.attributes import store_attribute
from ampcheck.running.describing import asks_for_finiteness, text_of
from ampcheck.running.looping import bind_target
from ampcheck.running.machine import Machine
from ampcheck.running.remembering import remembered
from ampcheck.running.roles import freeze, owners_of
from ampcheck.running.truth import truth

__all__ = ["assign", "run_assign", "run_augmented"]


def run_assign(machine: Machine, node: p.Assign) -> None:
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
    if isinstance(node.value, p.Constant):
        value = machine.flagged(value)
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
    if _is_computed(value) and isinstance(target, (p.Name, p.Attribute)):
        name = machine.text(target)
        # ``accumulate = max(round(nominal / batch_size), 1)``; while it warms up, it is run as what it will be.
        if name in machine.setting.windows or (
            machine.names_window(name) and not value.varying and value.flow is None
        ):
            return replace(value, text=name, varying=False, flow=None)
    return value


def _is_computed(value: v.Value) -> TypeGuard[v.Unknown]:
    """Whether a value is a number that an expression gives, which the run cannot compute."""
    return (
        isinstance(value, v.Unknown)
        and value.role is None
        and not all(part.isidentifier() for part in value.text.split("."))
        and not value.argument
    )


def _is_anonymous(machine: Machine, value: v.Value) -> bool:
    """Whether a value is an object that a call returned and nothing has named yet."""
    if not isinstance(value, v.Unknown) or value.role is not None or value.varying or value.flow is not None:
        return False
    is_window = machine.names_window(value.text) or value.text in machine.setting.windows
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
            if isinstance(container, v.Gradient):
                _mask(machine, container, key, value, target)
            elif isinstance(container, v.DictValue):
                literal = key.value if isinstance(key, (v.Const, v.Number)) else text_of(key)
                machine.store(container.items, literal, value)
            elif isinstance(container, v.Seq) and isinstance(key, v.Number) and isinstance(key.value, int):
                if -len(container.items) <= key.value < len(container.items):
                    machine.touch()
                    container.items[key.value] = value
            elif isinstance(container, v.Unknown):
                norms.use(machine, value, "kept")
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
            norms.use(machine, value, "kept")
            store_attribute(machine, owner, name, value)


def _mask(machine: Machine, gradient: v.Gradient, where: v.Value, value: v.Value, node: p.Expr) -> None:
    """``p.grad[mask] = 0``: hides what is not finite where the mask asks for that, else it is a mask like any other."""
    if asks_for_finiteness(where):
        emitting.edit(machine, replace(gradient, effect="hide"), node)
    elif isinstance(value, v.Number) and value.value == 0:
        emitting.edit(machine, replace(gradient, effect="multiply"), node)


def _set_gradient(machine: Machine, parameters: v.Parameters, value: v.Value, node: p.Expr) -> None:
    owners, _ = owners_of(machine, parameters)
    if isinstance(value, v.Const) and value.value is None:
        emitting.zero_grad(machine, owners, True, node)
    elif isinstance(value, v.Gradient):
        emitting.edit(machine, value, node)
    elif owners:
        # A gradient made by hand: whatever it is, it is no longer what a backward left.
        emitting.escape(machine, [v.Optimizer(o) for o in owners], "p.grad = ...", node)


def run_augmented(machine: Machine, node: p.AugAssign) -> None:
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
