"""Comparisons over the domain: a known truth, or an atom in canonical form."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ampcheck.events import SkipTest
from ampcheck.running import values as v
from ampcheck.running.arithmetic import coerce, unit_of
from ampcheck.running.describing import is_varying, text_of
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_start

__all__ = ["compare", "negate"]

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


# ``x in (...)`` is as many choices as there are items.
MOST_ALTERNATIVES = 8
OPPOSITE = {"!=": "==", "is not": "is", "not in": "in", ">=": "<", ">": "<="}


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
    if isinstance(left, v.Strided) and text_of(right) == left.stop and op in COMPARISONS:
        # ``i + step >= n`` is the last of the strides.
        return v.Truth(COMPARISONS[op](left.index, left.length), boundary=True)
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
    if (
        isinstance(left, (v.Const, v.Number))
        and isinstance(right, (v.Const, v.Number))
        and op in ("==", "!=")
    ):
        return v.Truth(op == "!=")  # a string is no number
    if op in ("is", "is not") and isinstance(left, v.Instance) and isinstance(right, v.Instance):
        return v.Truth((left is right) == (op == "is"))
    for one, other in ((left, right), (right, left)):
        if isinstance(other, v.Const) and other.value is None and op in ("is", "is not", "==", "!="):
            return _is_none(one, op in ("is", "=="))
    return _atom(machine, op, left, right)


def _note_limit(machine: Machine, limit: v.Value) -> None:
    """What iterations are compared with is a window's length if it is called like one."""
    match limit:
        case v.Unknown(text=text, flow=None, varying=False, role=None) if machine.names_window(text):
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
    if isinstance(value, v.StepResult):
        return v.Truth(positive)
    return v.Truth(not positive)


def _membership(machine: Machine, op: str, item: v.Value, container: v.Value) -> v.Value:
    if isinstance(container, v.DictValue) and isinstance(item, v.Const):
        return v.Truth((item.value in container.items) == (op == "in"))
    if isinstance(container, v.Seq) and (
        isinstance(item, (v.Const, v.Number))
        or (isinstance(item, v.Unknown) and len(container.items) <= MOST_ALTERNATIVES)
    ):
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
    usual = not varying and not _is_cpu(right)
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


def _is_cpu(value: v.Value) -> bool:
    """``device.type == "cpu"``: training runs on something else."""
    return isinstance(value, v.Const) and value.value == "cpu"


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
