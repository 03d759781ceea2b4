"""Arithmetic over the domain: counters and window lengths exactly, losses and gradients in units."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ampcheck.events import PLAIN, SkipTest, Unit
from ampcheck.running import values as v
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_start, names_window, names_world

__all__ = ["binary", "coerce", "compare", "flow_of", "is_varying", "negate", "text_of"]

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
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
    "is": operator.eq,
    "is not": operator.ne,
}
OPPOSITE = {"!=": "==", "is not": "is", "not in": "in", ">=": "<", ">": "<="}


def text_of(value: v.Value) -> str:
    """How messages and atoms spell a value."""
    match value:
        case v.Unknown(text=text) | v.Foreign(text=text) | v.Atom(text=text):
            return text
        case v.Number(symbol=symbol, value=number, counter=counter, label=label):
            return symbol or (label if counter and label else f"{number:g}")
        case v.Const(value=constant):
            return repr(constant)
        case v.Truth(value=truth):
            return repr(truth)
        case v.Lib(name=name):
            return name
        case (
            v.Optimizer(id=name)
            | v.Scaler(id=name)
            | v.Model(id=name)
            | v.Scheduler(id=name)
            | v.Average(id=name)
        ):
            return name
        case v.Instance(id=name, cls=cls):
            return name or cls.node.name
        case v.GradientNorm():
            return "the gradients' norm"
        case v.Gradient():
            return "the gradients"
        case v.Reading(scaler=scaler):
            return f"{scaler}.get_scale()"
        case v.Formula(op="not", left=left):
            return f"not {text_of(left)}"
        case v.Formula(op=op, left=left, right=right) if right is not None:
            return f"{text_of(left)} {op} {text_of(right)}"
        case v.Items(text=text):
            return text
        case v.Seq(items=items) if len(items) < 8:
            return "(" + ", ".join(text_of(item) for item in items) + ")"
        case v.Parameters(text=text):
            return text
        case _:
            return type(value).__name__.lower()


def is_varying(value: v.Value | None) -> bool:
    """Whether a value differs between micro-batches."""
    match value:
        case v.Unknown(varying=varying, flow=flow):
            return varying or flow is not None
        case v.Atom(varying=varying):
            return varying
        case v.Gradient() | v.GradientNorm() | v.Reading():
            return True
        case v.Number(counter=counter):
            return counter
        case v.Formula(left=left, right=right):
            return is_varying(left) or is_varying(right)
        case v.Seq(items=items):
            return any(is_varying(item) for item in items)
        case _:
            return False


def flow_of(value: v.Value) -> v.Flow | None:
    """What a value brings to a backward, if anything."""
    if isinstance(value, v.Unknown):
        return value.flow
    if isinstance(value, v.Seq):
        flows = [f for f in (flow_of(item) for item in value.items) if f is not None]
        if flows:
            total = flows[0]
            for flow in flows[1:]:
                total = total.plus(flow)
            return total
    return None


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
        _note_divisor(machine, right)
    left, right = coerce(machine, left), coerce(machine, right)
    if isinstance(left, v.Number) and isinstance(right, v.Number):
        return _numbers(machine, op, left, right, text)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, v.Gradient):
            return _gradient(machine, op, one, other, other is left)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, v.GradientNorm):
            # ``norm + 1e-6`` is still that norm, ``total + norm`` is not.
            is_epsilon = isinstance(other, v.Number) and 0 < other.value < 1
            return v.GradientNorm(None) if op == "+" and not is_epsilon else one
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


def _note_divisor(machine: Machine, divisor: v.Value) -> None:
    """A divisor that is called like a window's length is one; so is the length of the literal loop it stands in."""
    setting = machine.setting
    match divisor:
        case v.Unknown(text=text, flow=None, varying=False, role=None) if names_window(text):
            if text not in setting.windows and "(" not in text:
                setting.add_window(text, "")
        case v.Unknown(text=text, flow=None, varying=False, role=None) if text in machine.loops:
            if text not in setting.windows:
                setting.add_window(text, "")
        case v.Number(value=int(length), counter=False, label=label, unit=unit) if (
            length > 1 and unit == PLAIN
        ):
            if label and names_window(label):
                setting.label(str(length), label)
            elif str(length) in machine.loops and str(length) not in setting.windows:
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
    named = flow.times(Unit(other=frozenset({text_of(factor)})))
    return named if other is None else v.Flow(named.parts, named.plus(other).forwards, named.reduction)


def _gradient(machine: Machine, op: str, gradient: v.Gradient, other: v.Value, reflected: bool) -> v.Value:
    if op in ("*", "/") and not (reflected and op == "/"):
        if isinstance(other, v.GradientNorm):
            local = other.parameters is not None and other.parameters.each
            return v.Gradient(gradient.parameters, "clip", local=local)
        factor = PLAIN
        if isinstance(other, v.Number):
            factor = PLAIN.times(unit_of(machine, other), 1 if op == "*" else -1)
        return v.Gradient(gradient.parameters, gradient.effect or "multiply", gradient.factor.times(factor))
    if op in "+-":
        if isinstance(other, v.Gradient):
            return gradient
        return v.Gradient(gradient.parameters, "shift")
    return v.GradientNorm(gradient.parameters)


def negate(value: v.Value) -> v.Value:
    """``not value``, in canonical form."""
    match value:
        case v.Truth(value=truth, boundary=boundary, modulus=modulus):
            return v.Truth(not truth, boundary, modulus)
        case v.Formula(op="not", left=left):
            return left
        case v.Atom():
            return v.Atom(
                value.text,
                value.varying,
                value.usual,
                value.finite,
                value.skip,
                value.modulus,
                not value.negated,
                value.group,
                value.monotone,
            )
        case _:
            return v.Formula("not", value)


def compare(machine: Machine, op: str, left: v.Value, right: v.Value, resets: bool = False) -> v.Value:
    """``left op right`` as a known truth or an atom in canonical form; `resets` for a counter that is set back."""
    from_readings = _readings(machine, op, left, right)
    if from_readings is not None:
        return from_readings
    left, right = coerce(machine, left), coerce(machine, right)
    for counter, limit in ((left, right), (right, left)):
        if isinstance(counter, v.Number) and counter.counter:
            _note_limit(machine, limit)
    if resets:
        for counter, limit in ((left, right), (right, left)):
            atom = _limit(machine, op, counter, limit)
            if atom is not None:
                return atom
    if op in ("in", "not in"):
        return _membership(machine, op, left, right)
    if isinstance(left, v.Number) and isinstance(right, v.Number) and op in COMPARISONS:
        boundary = left.boundary or right.boundary
        if left.counter or right.counter:
            boundary = boundary or unit_of(machine, left).window > 0 or unit_of(machine, right).window > 0
        return v.Truth(COMPARISONS[op](left.value, right.value), boundary)
    if isinstance(left, (v.Const, v.Truth)) and isinstance(right, (v.Const, v.Truth)) and op in COMPARISONS:
        try:
            return v.Truth(bool(COMPARISONS[op](left.value, right.value)))
        except TypeError:
            return v.FALSE
    for one, other in ((left, right), (right, left)):
        if isinstance(other, v.Const) and other.value is None and op in ("is", "is not", "==", "!="):
            return _is_none(one, op in ("is", "=="))
    return _atom(machine, op, left, right)


def _note_limit(machine: Machine, limit: v.Value) -> None:
    """What iterations are compared with is a window's length if it is called like one."""
    match limit:
        case v.Unknown(text=text, flow=None, varying=False, role=None) if names_window(text):
            if text not in machine.setting.windows and "(" not in text:
                machine.setting.add_window(text, "")


def _limit(machine: Machine, op: str, counter: v.Value, limit: v.Value) -> v.Value | None:
    """``count == n`` for a counter that is set back: n is a window's length if steps depend on it."""
    if not isinstance(counter, v.Number) or not isinstance(counter.value, int) or op not in COMPARISONS:
        return None
    match limit:
        case v.Unknown(text=text, flow=None, varying=False, role=None):
            spelling = text
        case v.Number(value=int(number), symbol="", counter=False) if number >= 2:
            spelling = str(number)
        case _:
            return None
    if spelling in machine.setting.windows:
        return None
    # Usually not yet: whatever is compared, the counter is below its limit.
    negated = op in ("<", "<=", "!=")
    return v.Atom(f"{text_of(counter)} reaches {spelling}", True, False, modulus=spelling, negated=negated)


def _is_none(value: v.Value, positive: bool) -> v.Value:
    if isinstance(value, (v.Unknown, v.Foreign)) and getattr(value, "role", None) is None:
        atom = v.Atom(value.text, is_varying(value))
        return negate(atom) if positive else atom
    if isinstance(value, (v.Atom, v.Formula)):
        return v.Truth(not positive)
    return v.Truth(not positive)


def _membership(machine: Machine, op: str, item: v.Value, container: v.Value) -> v.Value:
    if isinstance(container, v.DictValue) and isinstance(item, v.Const):
        return v.Truth((item.value in container.items) == (op == "in"))
    if isinstance(container, v.Seq) and isinstance(item, (v.Const, v.Unknown)) and len(container.items) <= 8:
        result: v.Value = v.FALSE
        for element in container.items:
            result = v.Formula("or", result, compare(machine, "==", item, element))
        return result if op == "in" else negate(result)
    text = f"{text_of(item)} in {text_of(container)}"
    atom = v.Atom(text, is_varying(item) or is_varying(container))
    return atom if op == "in" else negate(atom)


def _atom(machine: Machine, op: str, left: v.Value, right: v.Value) -> v.Value:
    negated = op in OPPOSITE
    base = OPPOSITE.get(op, op)
    varying = is_varying(left) or is_varying(right) or _counts_calls(machine, left, right)
    modulus = next((x.modulus for x in (left, right) if isinstance(x, v.Unknown) and x.modulus), "")
    group = None
    if base in ("==", "is") and isinstance(right, (v.Const, v.Lib)) and not varying:
        group = (text_of(left), text_of(right))
    text = f"{text_of(left)} {base} {text_of(right)}"
    # In an uneventful run no limit is exceeded and no rare iteration is due; inequalities read "not yet".
    usual = not varying
    monotone = False
    if varying and base in ("<", "<="):
        usual = _reads_not_yet(left)
        counter, limit = (left, right) if isinstance(left, v.Number) else (right, left)
        if isinstance(counter, v.Number) and counter.counter:
            monotone = True
            # Past where it starts, not yet where it ends: ``i < start_step`` is false, ``i < max_steps`` true.
            usual = (counter is left) != names_start(text_of(limit))
    skip_text = _finite_text(left) or _finite_text(right)
    return v.Atom(
        text,
        varying,
        usual,
        finite=skip_text,
        modulus=modulus,
        negated=negated,
        group=group,
        monotone=monotone,
    )


def _counts_calls(machine: Machine, left: v.Value, right: v.Value) -> bool:
    """Whether a number that the caller of a step passes in is compared: ``if step == self.epoch_len - 1``."""
    if not machine.synthetic or not isinstance(right, (v.Unknown, v.Number)):
        return False
    return isinstance(left, v.Unknown) and left.argument and left.base is None and left.flow is None


def _reads_not_yet(left: v.Value) -> bool:
    """``i < limit`` is usually true, ``limit < i`` is not."""
    return not (isinstance(left, v.Unknown) and not left.varying and left.flow is None)


def _finite_text(value: v.Value) -> bool:
    return "inf" in text_of(value).lower() or "nan" in text_of(value).lower()


def _readings(machine: Machine, op: str, left: v.Value, right: v.Value) -> v.Value | None:
    if not (isinstance(left, v.Reading) and isinstance(right, v.Reading)) or op not in COMPARISONS:
        return None
    # With an unchanged scale (the usual run) the test says what it says of two equal numbers.
    text = f"{text_of(left)} {op} {text_of(right)}"
    usual = op in ("<=", ">=", "==")
    skip = SkipTest(left.scaler, left.index, op, right.index)
    return v.Atom(text, True, usual, skip=skip)
