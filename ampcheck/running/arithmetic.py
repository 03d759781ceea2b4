"""Arithmetic over the domain: counters and window lengths exactly, losses and gradients in units."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ampcheck.events import PLAIN, Unit
from ampcheck.running import derivatives, norms
from ampcheck.running import values as v
from ampcheck.running.describing import flow_of, is_varying, text_of
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_world

__all__ = ["binary", "coerce", "unit_of", "weighted_mean"]

# Marks a factor that a loss was multiplied by, and not divided.
WEIGHT = "× "

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
}


def coerce(machine: Machine, value: v.Value) -> v.Value:
    """An unknown that this run has settled, as the number it is run as."""
    match value:
        case v.Unknown(text=text, flow=None, varying=False):
            if text in machine.setting.windows:
                return v.Number(machine.setting.windows[text], Unit(window=1), text)
            if names_world(text):
                return v.Number(2, Unit(world=1), text)
        case v.Number(value=int(number), counter=False, unit=unit, label=label) if unit == PLAIN:
            # A literal too large to be run as it stands is run as a short window everywhere.
            length = machine.setting.windows.get(str(number), number)
            if length != number:
                return v.Number(length, Unit(window=1), label or str(number))
        case v.Truth(value=truth, boundary=boundary):
            return v.Number(int(truth), boundary=boundary)
        case v.Strided(index=index, text=text):
            return v.Number(index, counter=True, label=text)
        case v.Reading(scaler=scaler):
            return v.Number(1.0, Unit(((scaler, 1),)), text_of(value))
    return value


def unit_of(machine: Machine, number: v.Number) -> Unit:
    """The known factors in a number: a literal that is the window's length counts as K."""
    literal = isinstance(number.value, int) and not number.counter and number.unit == PLAIN
    if literal and str(number.value) in machine.setting.windows:
        return Unit(window=1)
    return number.unit


def binary(machine: Machine, op: str, left: v.Value, right: v.Value, text: str) -> v.Value:
    """``left op right``; `text` is how the result is spelled where it stays unknown."""
    if op == "/":
        _note_divisor(machine, left, right)
    if isinstance(left, v.Strided) and text_of(right) == left.stride:
        if op == "+":
            spelled = f"{left.text} + {left.stride}"
            return v.Strided(left.index + 1, left.length, left.stride, left.stop, spelled)
        if op == "//":
            return v.Number(left.index, counter=True, label=text)
    left, right = coerce(machine, left), coerce(machine, right)
    if isinstance(left, v.Number) and isinstance(right, v.Number):
        return _numbers(machine, op, left, right, text)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, v.Gradient):
            return _gradient(machine, op, one, other, other is left)
    if isinstance(left, v.Derivative) or isinstance(right, v.Derivative):
        return derivatives.combined(machine, op, left, right, text)
    if isinstance(left, v.GradientNorm) or isinstance(right, v.GradientNorm):
        return norms.combined(op, left, right)
    if op == "%" and isinstance(left, (v.Number, v.Unknown)):
        modulus = _modulus(machine, left, right, text)
        if modulus is not None:
            return modulus
    if isinstance(left, v.Seq) and isinstance(right, v.Seq) and op == "+":
        return v.Seq(left.kind, left.items + right.items)
    if isinstance(left, v.Parameters) and isinstance(right, v.Parameters) and op == "+":
        models = tuple(dict.fromkeys(left.models + right.models))
        return v.Parameters(models, left.partial or right.partial, text=text)
    flow = _flows(machine, op, left, right)
    offset = 0
    if isinstance(left, v.Unknown) and isinstance(right, v.Number) and isinstance(right.value, int):
        offset = left.offset + {"+": right.value, "-": -right.value}.get(op, 0)
    return v.Unknown(_joined(left, op, right, text), is_varying(left) or is_varying(right), flow, offset)


def _note_divisor(machine: Machine, dividend: v.Value, divisor: v.Value) -> None:
    """A divisor that is called like a window's length is one; so is the length of the loop that a loss stands in."""
    setting = machine.setting
    innermost = machine.loops[-1] if machine.loops and flow_of(dividend) is not None else ""
    match divisor:
        case v.Unknown(text=text, flow=None, varying=False, role=None) if machine.names_window(text):
            if text not in setting.windows and "(" not in text:
                setting.add_window(text, "")
        case v.Unknown(text=text, flow=None, varying=False, role=None) if text == innermost:
            if text not in setting.windows:
                setting.add_window(text, "")
        case v.Number(value=int(length), counter=False, label=label, unit=unit) if (
            length > 1 and unit == PLAIN
        ):
            if label and machine.names_window(label):
                setting.label(str(length), label)
            elif str(length) == innermost and str(length) not in setting.windows:
                setting.add_window(str(length), "")


def _joined(left: v.Value, op: str, right: v.Value, text: str) -> str:
    spelled = f"{text_of(left)} {op} {text_of(right)}"
    return spelled if len(spelled) < 80 else text


def _numbers(machine: Machine, op: str, left: v.Number, right: v.Number, text: str) -> v.Value:
    if op == "%":
        modulus = _modulus(machine, left, right, text)
        if modulus is not None:
            return modulus
    if op in "/*" and (left.unit != PLAIN or right.unit != PLAIN):
        left_unit, right_unit = unit_of(machine, left), unit_of(machine, right)
    else:
        left_unit, right_unit = left.unit, right.unit
        # ``1 / 4`` is 1/K where 4 is the window's length.
        if op == "/" and left.value == 1:
            right_unit = unit_of(machine, right)
    try:
        value = ARITHMETIC[op](left.value, right.value)
    except (KeyError, ArithmeticError, TypeError, ValueError):
        return v.Unknown(text)
    if isinstance(value, complex) or abs(value) > 1e15:
        return v.Unknown(text)
    unit = {"*": left_unit.times(right_unit), "/": left_unit.times(right_unit, -1)}.get(op, PLAIN)
    spelled = left.symbol or right.symbol or (left.counter and left.label) or (right.counter and right.label)
    symbol = f"{text_of(left)} {op} {text_of(right)}" if spelled else ""
    counter = left.counter or right.counter
    boundary = left.boundary or right.boundary or (op == "//" and counter and _is_window(machine, right))
    return v.Number(value, unit, symbol if len(symbol) < 80 else text, counter, boundary)


def _is_window(machine: Machine, number: v.Number) -> bool:
    return unit_of(machine, number).window > 0


def _modulus(machine: Machine, left: v.Number | v.Unknown, right: v.Value, text: str) -> v.Value | None:
    """``i % n``: exact for a window, otherwise unknown but remembering n, which may yet turn out to be one."""
    counted = left.value if isinstance(left, v.Number) else left.offset
    counter = left.counter if isinstance(left, v.Number) else True
    if isinstance(left, v.Unknown) and (left.varying or left.flow is not None) and not left.argument:
        return None
    if (
        isinstance(right, v.Number)
        and isinstance(counted, int)
        and isinstance(right.value, int)
        and right.value > 0
    ):
        if _is_window(machine, right):
            return v.Number(counted % right.value, counter=counter, boundary=True)
        if not counter:
            return v.Number(counted % right.value)
        if right.symbol == "" and right.value == 1:
            return v.Number(0)
        return v.Unknown(text, True, modulus=right.symbol or str(right.value))
    if isinstance(right, v.Unknown) and right.flow is None and not right.varying and counter:
        return v.Unknown(text, True, modulus=right.text)
    return None


def _flows(machine: Machine, op: str, left: v.Value, right: v.Value) -> v.Flow | None:
    mine, its = flow_of(left), flow_of(right)
    if op in "+-":
        return mine.plus(its) if mine is not None and its is not None else mine or its
    if op not in ("*", "/"):
        return mine.plus(its) if mine is not None and its is not None else mine or its
    if mine is None and its is None:
        # A loss that came from nowhere visible is a loss all the same once it is divided by the window.
        for value, factor, sign in ((left, right, 1 if op == "*" else -1), (right, left, 1)):
            if isinstance(value, v.Unknown) and isinstance(factor, v.Number):
                unit = unit_of(machine, factor)
                if unit != PLAIN and (sign == 1 or factor is right):
                    return v.Flow((PLAIN.times(unit, sign),))
        if isinstance(left, v.Unknown) and isinstance(right, v.Unknown) and (left.varying or right.varying):
            return v.Flow((Unit(other=frozenset({text_of(right)})),)) if op == "/" else None
        return None
    if mine is None:
        return (
            its
            if op == "*" and its is not None and _is_plain(machine, left)
            else _weigh(machine, its, left, op)
        )
    return _weigh(machine, mine, right, op)


def weighted_mean(flow: v.Flow) -> v.Flow:
    """The mean of a weighted loss: the weights are those of single examples."""
    parts = tuple(
        replace(unit, other=frozenset(name for name in unit.other if not name.startswith(WEIGHT)))
        for unit in flow.parts
    )
    return replace(flow, parts=parts)


def _is_plain(machine: Machine, value: v.Value) -> bool:
    return isinstance(value, v.Number) and unit_of(machine, value) == PLAIN


def _weigh(machine: Machine, flow: v.Flow | None, factor: v.Value, op: str) -> v.Flow | None:
    if flow is None:
        return None
    if isinstance(factor, v.Number):
        return flow.times(unit_of(machine, factor), 1 if op == "*" else -1)
    other = flow_of(factor)
    # A weight that the run does not know is no normalisation as long as it is the same every time.
    if op == "*" and other is None and not is_varying(factor) and "scale" not in text_of(factor):
        return flow
    # Weights of single examples, known as such once their mean is taken: they do not divide by anything.
    mark = WEIGHT if op == "*" and other is None and "/" not in text_of(factor) else ""
    named = flow.times(Unit(other=frozenset({f"{mark}{text_of(factor)}"})))
    return (
        named if other is None else replace(named.plus(other), parts=named.parts, reduction=named.reduction)
    )


def _gradient(machine: Machine, op: str, gradient: v.Gradient, other: v.Value, reflected: bool) -> v.Value:
    if op in ("*", "/") and not (reflected and op == "/"):
        if isinstance(other, v.GradientNorm):
            norms.use(machine, other, "clip")
            if other.unscaled:  # the coefficient of a clip in the gradients' own unit
                return v.Gradient(gradient.parameters, gradient.effect or "multiply", gradient.factor)
            local = other.parameters is not None and other.parameters.each
            return v.Gradient(gradient.parameters, "clip", local=local)
        factor = PLAIN
        if isinstance(other, v.Number):
            factor = PLAIN.times(unit_of(machine, other), 1 if op == "*" else -1)
        return v.Gradient(gradient.parameters, gradient.effect or "multiply", gradient.factor.times(factor))
    if op in "+-":
        if isinstance(other, (v.Gradient, v.GradientNorm)):
            return gradient  # homogeneous of degree 1: centring, projections
        return v.Gradient(gradient.parameters, "shift")
    return v.GradientNorm(gradient.parameters)
