"""The values of expressions, one small function a node."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ampcheck import program as p
from ampcheck.running import norms
from ampcheck.running import values as v
from ampcheck.running.arithmetic import binary, coerce
from ampcheck.running.attributes import attribute, item
from ampcheck.running.builtins import BUILTINS
from ampcheck.running.comparing import compare, negate
from ampcheck.running.describing import flow_of, is_varying, text_of
from ampcheck.running.iterators import consume, iterator_over, kept
from ampcheck.running.looping import bind_target, iterate
from ampcheck.running.machine import Machine
from ampcheck.running.truth import is_decided, truth

__all__ = ["evaluate"]


def evaluate(machine: Machine, node: p.Expr) -> v.Value:
    """The value of an expression in the current frame."""
    return CASES[type(node)](machine, node)


def _name(machine: Machine, node: p.Name) -> v.Value:
    value = machine.frame.find(node.id)
    if value is not None:
        return value
    if node.id in BUILTINS:
        return v.Lib(node.id)
    value = machine.unbound.get(node.id)
    if value is None:
        value = machine.unbound[node.id] = v.Unknown(node.id)
    return value


def _constant(machine: Machine, node: p.Constant) -> v.Value:
    value = node.value
    if isinstance(value, bool):
        return v.TRUE if value else v.FALSE
    if isinstance(value, (int, float)):
        return v.Number(value)
    return v.NONE if value is None else v.Const(value)


def _attribute(machine: Machine, node: p.Attribute) -> v.Value:
    return attribute(machine, machine.evaluate(node.value), node.attr)


def _subscript(machine: Machine, node: p.Subscript) -> v.Value:
    value = machine.evaluate(node.value)
    if isinstance(node.index, p.Slice) and isinstance(value, v.Seq):
        bounds = [_bound(machine, b) for b in (node.index.lower, node.index.upper, node.index.step)]
        if "?" not in bounds:
            return v.Seq(value.kind, value.items[slice(*bounds)])
    index = machine.evaluate(node.index)
    return item(machine, value, index, machine.text(node), node)


def _bound(machine: Machine, node: p.Expr | None) -> Any:
    """A slice's bound, "?" where it is not known."""
    if node is None:
        return None
    value = coerce(machine, machine.evaluate(node))
    return value.value if isinstance(value, v.Number) and isinstance(value.value, int) else "?"


def _slice(machine: Machine, node: p.Slice) -> v.Value:
    bounds = [machine.evaluate(b) for b in (node.lower, node.upper, node.step) if b is not None]
    return v.Unknown(machine.text(node), any(is_varying(b) for b in bounds))


def _call(machine: Machine, node: p.Call) -> v.Value:
    if isinstance(node.func, p.Name) and node.func.id == "super":
        return v.Method(machine.frame.find("self") or v.NONE, "super")
    callee = machine.evaluate(node.func)
    hint, machine.hint = machine.hint, ""
    args: list[v.Value] = []
    keywords: dict[str, v.Value] = {}
    for argument in node.arguments:
        value = machine.evaluate(argument.value)
        if argument.star == "*":
            args += value.items if isinstance(value, v.Seq) else [_all(machine, value, node)]
        elif argument.star == "**":
            if isinstance(value, v.DictValue):
                keywords.update({k: x for k, x in value.items.items() if isinstance(k, str)})
        elif argument.name:
            keywords[argument.name] = value
        else:
            args.append(value)
    machine.hint = hint
    return machine.call(callee, args, keywords, node)


def _all(machine: Machine, value: v.Value, node: p.Expr) -> v.Value:
    """``*value``: an iterator is gone through."""
    consume(machine, value, node.site)
    return kept(value) if isinstance(value, v.Parameters) else value


def _binary(machine: Machine, node: p.Binary) -> v.Value:
    left, right = machine.evaluate(node.left), machine.evaluate(node.right)
    result = binary(machine, node.op, left, right, machine.text(node))
    if isinstance(result, v.Gradient) and result.at is None:
        result.at = node.site
    return result


def _unary(machine: Machine, node: p.Unary) -> v.Value:
    value = machine.evaluate(node.operand)
    if node.op == "not":
        if isinstance(value, (v.Number, v.Const, v.Seq, v.DictValue)):
            known, _ = truth(machine, value, node.site)
            return v.Truth(not known, isinstance(value, v.Number) and value.boundary)
        return negate(value)
    if node.op == "-":
        number = coerce(machine, value)
        if isinstance(number, v.Number):
            return v.Number(-number.value, number.unit, number.symbol, number.counter)
    return v.Unknown(f"{node.op}{text_of(value)}", is_varying(value), flow_of(value))


def _compare(machine: Machine, node: p.Compare) -> v.Value:
    left, right = machine.evaluate(node.left), machine.evaluate(node.right)
    for value in (left, right):
        if isinstance(value, v.StepResult):
            truth(machine, value, node.site)  # a comparison is a test, whoever asks for its outcome later
    _note_norms(machine, left, right)
    result = compare(machine, node.op, left, right, node in machine.layout.window_tests)
    if isinstance(result, v.Atom) and result.skip is not None:
        result.text = machine.text(node)
    return result


def _note_norms(machine: Machine, left: v.Value, right: v.Value) -> None:
    """A norm that is compared with anything but infinity, None or itself decides something."""
    for norm, other in ((left, right), (right, left)):
        finite = isinstance(other, v.Const) or re.search(r"\b(inf|nan)\b", text_of(other).lower())
        if isinstance(norm, v.GradientNorm) and norm is not other and not finite:
            norms.use(machine, norm, "tested")


def _boolop(machine: Machine, node: p.BoolOp) -> v.Value:
    left = machine.evaluate(node.left)
    if isinstance(left, (v.Truth, v.Const, v.Number)):
        known, _ = truth(machine, left, node.site)
        boundary = isinstance(left, (v.Truth, v.Number)) and left.boundary
        if known == (node.op == "or"):
            return left
        right = machine.evaluate(node.right)
        if boundary and isinstance(right, v.Truth):
            return v.Truth(right.value, True)
        return right
    if _is_object(left):
        return left if node.op == "or" else machine.evaluate(node.right)
    return v.Formula("and" if node.op == "and" else "or", left, machine.evaluate(node.right))


def _is_object(value: v.Value) -> bool:
    return isinstance(
        value,
        (v.Scaler, v.Optimizer, v.Scheduler, v.Model, v.Instance, v.Function, v.Bound, v.Class, v.Parameters),
    )


def _ifexp(machine: Machine, node: p.IfExp) -> v.Value:
    test = machine.evaluate(node.test)
    if not is_decided(machine, test):
        merged = machine.merge_values(node)
        if merged is not None:
            return merged
    holds, guards = truth(machine, test, node.test.site, machine.text(node.test))
    with machine.guarded(*guards):
        return machine.flagged(machine.evaluate(node.body if holds else node.orelse))


def _display(machine: Machine, node: p.Display) -> v.Value:
    hint, items = machine.hint, []
    for index, element in enumerate(node.items):
        machine.hint = f"{hint}[{index}]" if hint else ""
        if isinstance(element, p.Starred):
            value = machine.evaluate(element.value)
            items += value.items if isinstance(value, v.Seq) else [_all(machine, value, node)]
        else:
            items.append(machine.evaluate(element))
    machine.hint = hint
    return _joined(machine, node, items) or v.Seq(node.kind, items)


def _joined(machine: Machine, node: p.Display, items: list[v.Value]) -> v.Parameters | None:
    """``[*a.parameters(), *b.parameters()]``: its elements are single parameters, not those of a model each."""
    spread = [item for item in items if isinstance(item, v.Parameters)]
    if not spread or len(spread) < len(items) or not all(isinstance(e, p.Starred) for e in node.items):
        return None
    models = tuple(dict.fromkeys(m for part in spread for m in part.models))
    return v.Parameters(models, any(part.partial for part in spread), text=machine.text(node))


def _dict(machine: Machine, node: p.DictDisplay) -> v.Value:
    hint = machine.hint
    items: dict[Any, v.Value] = {}
    for key, element in node.items:
        if key is None:
            spread = machine.evaluate(element)
            if isinstance(spread, v.DictValue):
                items.update(spread.items)
            continue
        name = machine.evaluate(key)
        literal = name.value if isinstance(name, (v.Const, v.Number, v.Truth)) else text_of(name)
        machine.hint = f"{hint}[{literal!r}]" if hint else ""
        items[literal] = machine.evaluate(element)
    machine.hint = hint
    return v.DictValue(items)


def _starred(machine: Machine, node: p.Starred) -> v.Value:
    return machine.evaluate(node.value)


def _comprehension(machine: Machine, node: p.Comprehension) -> v.Value:
    """A comprehension over known items is run; over anything else its element stands for all."""
    results: list[v.Value] = []
    keys: list[v.Value] = []
    sources: list[v.Value] = []
    generator = node.kind == "generator"
    partial = False

    def run(level: int) -> None:
        nonlocal partial
        if level == len(node.loops):
            if node.key is not None:
                keys.append(machine.evaluate(node.key))
            results.append(machine.evaluate(node.element))
            return
        target, iterable, conditions = node.loops[level]
        source = machine.evaluate(iterable)
        sources.append(source)
        for value in iterate(machine, source, node, single=True, lazily=generator):
            bind_target(machine, target, value)
            keep = True
            for condition in conditions:
                keep = keep and _keeps(machine, value, condition)
            if keep:
                run(level + 1)

    frame = machine.frame
    machine.frame = type(frame)(parent=frame, owner=frame.owner)
    try:
        run(0)
    finally:
        machine.frame = frame
    if node.key is not None:
        literals = [k.value if isinstance(k, (v.Const, v.Number)) else text_of(k) for k in keys]
        return v.DictValue(dict(zip(literals, results, strict=True)))
    parameters = [r for r in results if isinstance(r, v.Parameters)]
    if (
        parameters
        and len(parameters) == len(results)
        and (generator or len({q.models for q in parameters}) == 1)
    ):
        first = parameters[0]
        models = tuple(dict.fromkeys(m for q in parameters for m in q.models))
        found = v.Parameters(models, any(q.partial for q in parameters), False, first.text)
        return iterator_over(machine, found, sources) if generator else found
    if generator:
        # Numbers of elements, norms: taken to be summed up at once.
        for source in sources:
            consume(machine, source, node.site)
        return v.Items("items", "a generator", items=results)
    return v.Seq("list", results)


def _keeps(machine: Machine, value: v.Value, condition: p.Expr) -> bool:
    """Whether a comprehension's condition keeps an item; ``if p.requires_grad`` keeps all that matters."""
    if isinstance(value, (v.Parameters, v.Gradient)):
        return True
    test = machine.evaluate(condition)
    if isinstance(test, (v.Truth, v.Const, v.Number)):
        return truth(machine, test, condition.site)[0]
    return True


def _named(machine: Machine, node: p.NamedExpr) -> v.Value:
    machine.hint = machine.text(node.target)
    value = machine.evaluate(node.value)
    machine.hint = ""
    bind_target(machine, node.target, value)
    return value


def _yield(machine: Machine, node: p.Yield) -> v.Value:
    value = machine.evaluate(node.value) if node.value is not None else v.NONE
    machine.give(value, node.delegate)
    return v.NONE


def _lambda(machine: Machine, node: p.Lambda) -> v.Value:
    return v.Function(node, machine.frame)


def _opaque(machine: Machine, node: p.Opaque) -> v.Value:
    operands = [machine.evaluate(operand) for operand in node.operands]
    norms.use(machine, v.Seq("", operands), "shown")  # most of these are formatted strings
    return v.Unknown(machine.text(node), any(is_varying(o) for o in operands), flow_of(v.Seq("", operands)))


CASES: dict[type, Callable[[Machine, Any], v.Value]] = {
    p.Name: _name,
    p.Constant: _constant,
    p.Attribute: _attribute,
    p.Subscript: _subscript,
    p.Call: _call,
    p.Binary: _binary,
    p.Unary: _unary,
    p.Compare: _compare,
    p.BoolOp: _boolop,
    p.IfExp: _ifexp,
    p.Display: _display,
    p.DictDisplay: _dict,
    p.Starred: _starred,
    p.Comprehension: _comprehension,
    p.NamedExpr: _named,
    p.Yield: _yield,
    p.Lambda: _lambda,
    p.Opaque: _opaque,
    p.Slice: _slice,
}
