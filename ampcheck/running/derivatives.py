"""What ``torch.autograd.grad`` makes of a scaled loss, followed until it is divided by the scale or used without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ampcheck.events import PLAIN, Differentiate, Loss, Unit
from ampcheck.program import Node
from ampcheck.running import values as v
from ampcheck.running.describing import flow_of, text_of
from ampcheck.running.machine import Machine
from ampcheck.running.norms import PASSING, is_reduction
from ampcheck.running.roles import overlaps

__all__ = ["combined", "differentiated", "method", "passed_on", "used_in"]

SAME = frozenset(
    {
        "view",
        "reshape",
        "flatten",
        "float",
        "double",
        "clone",
        "contiguous",
        "detach",
        "items",
        "values",
        "squeeze",
        "unsqueeze",
    }
)


def differentiated(
    machine: Machine, outputs: v.Value | None, weights: v.Value | None, node: Node
) -> v.Value | None:
    """``autograd.grad(outputs, inputs, grad_outputs)`` of something scaled; None where no scale is in it."""
    flow = (flow_of(outputs) if outputs is not None else None) or v.Flow()
    weight = flow_of(weights) if weights is not None else None
    scales = {Unit(u.scale).times(Unit(w.scale)) for u in flow.parts for w in (weight or v.Flow()).parts}
    if len(scales) != 1 or not (scale := scales.pop()).is_scaled:
        return None
    models = [f.model for f in flow.forwards]
    optimizers = machine.optimizers()
    owners = [o.id for o in optimizers if not models or not o.models or overlaps(o.models, models)]
    plain = replace(flow, parts=tuple(replace(u, scale=()) for u in flow.parts))
    event = Differentiate(site=node.site, loss=Loss((scale,)), owners=tuple(owners[:1]))
    return v.Derivative(machine.emit(event).index, plain, scale)


def used_in(machine: Machine, flow: v.Flow) -> None:
    """A tensor is differentiated by a backward: the derivatives in it that were not divided are a penalty."""
    for index in flow.undivided:
        machine.uses.setdefault(index, set()).add("penalty")


def combined(machine: Machine, op: str, left: v.Value, right: v.Value, text: str) -> v.Value:
    """``left op right``, at least one of them a derivative."""
    mine, other = (left, right) if isinstance(left, v.Derivative) else (right, left)
    assert isinstance(mine, v.Derivative)
    if op in ("*", "/"):
        return _weighed(mine, op, other, other is left)
    if op == "**" and isinstance(other, v.Number) and mine is left:
        return _power(mine, float(other.value))
    if isinstance(other, v.Derivative) and other.unit == mine.unit:
        return mine
    is_epsilon = isinstance(other, v.Number) and 0 < other.value < 1
    if op in "+-" and (is_epsilon or (mine.unit == PLAIN and isinstance(other, v.Number))):
        return mine
    if isinstance(other, v.Parameters) and mine.unit.is_scaled:
        machine.uses.setdefault(mine.record, set()).add("step")
    return v.Unknown(text, True, _joined(mine, other))


def _joined(mine: v.Derivative, other: v.Value) -> v.Flow:
    flow, its = _flow(mine), flow_of(other)
    return flow if its is None else its.plus(flow)


def _flow(mine: v.Derivative) -> v.Flow:
    found = flow_of(mine)
    assert found is not None
    return found


def _weighed(mine: v.Derivative, op: str, other: v.Value, reflected: bool) -> v.Value:
    if isinstance(other, v.Derivative) or (reflected and op == "/"):
        return replace(mine, unit=PLAIN)  # products and ratios of derivatives: too much for this account
    if isinstance(other, v.Number):
        return replace(mine, unit=mine.unit.times(Unit(other.unit.scale), 1 if op == "*" else -1))
    if isinstance(other, v.Unknown) and "scale" in text_of(other).lower():
        return replace(mine, unit=PLAIN)
    return mine


def _power(mine: v.Derivative, exponent: float) -> v.Value:
    scale = tuple((s, e * exponent) for s, e in mine.unit.scale)
    if any(e % 1 for _, e in scale):
        return replace(mine, unit=PLAIN)
    return replace(mine, unit=Unit(tuple((s, int(e)) for s, e in scale if e)))


def method(
    machine: Machine, it: v.Derivative, name: str, given: Iterable[v.Value], node: Node
) -> v.Value | None:
    """A method of a derivative; None for one that is not known."""
    operand = next(iter(given), None)
    match name:
        case "mul" | "div" | "mul_" | "div_" if operand is not None:
            return combined(machine, "*" if name.startswith("m") else "/", it, operand, it.text)
        case "add" | "sub" if operand is not None:
            return combined(machine, "+" if name == "add" else "-", it, operand, it.text)
        case _:
            return passed_on(machine, name, [it, *([operand] if operand is not None else [])])


def passed_on(machine: Machine, name: str, given: Iterable[v.Value]) -> v.Value | None:
    """What a known function makes of derivatives: a norm keeps their unit, a square has its square; else None."""
    values = list(given)
    mine = next(_derivatives(values), None)
    if mine is None:
        return None
    match name:
        case "isnan" | "isinf" | "isfinite":
            return v.Atom(f"{name} of the derivatives", True, name == "isfinite", finite=True)
        case "pow" | "square" | "sqrt":
            number = next((q for q in values if isinstance(q, v.Number)), None)
            exponent = {"square": 2.0, "sqrt": 0.5}.get(name, float(number.value) if number else 1.0)
            return _power(mine, exponent)
        case _ if name in SAME or is_reduction(name) or PASSING.search(name):
            return mine
        case _:
            return None


def _derivatives(values: Iterable[v.Value]) -> Iterator[v.Derivative]:
    for value in values:
        if isinstance(value, v.Derivative):
            yield value
        elif isinstance(value, (v.Seq, v.Items)):
            yield from _derivatives(value.items)
