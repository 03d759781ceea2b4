"""Branches with equal effects are not forked twice.

Both arms of a branch are tried on the same memory.  Where they bind the same names to values that no event can
tell apart, the branch is no choice of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ampcheck.events import PLAIN
from ampcheck.running import values as v
from ampcheck.running.describing import is_varying, text_of
from ampcheck.running.machine import Infeasible, Machine, MustFork, Signal
from ampcheck.running.naming import names_window

__all__ = ["join", "try_arm"]

Effects = dict[tuple[int, Any], tuple[dict[Any, v.Value], v.Value]]


def try_arm(machine: Machine, run: Callable[[], v.Value | None]) -> tuple[Effects, v.Value | None] | None:
    """What an arm would bind, and its value; None where it does more than bind.  Memory is left as it was."""
    outer, machine.trial = machine.trial, []
    frame, depth, calls = machine.frame, machine.depth, len(machine.calls)
    guards = len(machine.guards)
    try:
        value = run()
    except (MustFork, Signal, Infeasible):
        return None
    finally:
        log = machine.trial or []
        written = {(id(where), key): (where, where.get(key)) for where, key, _ in log}
        for where, key, old in reversed(log):
            if old is None:
                where.pop(key, None)
            else:
                where[key] = old
        machine.trial = outer
        machine.frame, machine.depth = frame, depth
        del machine.calls[calls:], machine.guards[guards:]
    effects: Effects = {
        place: (where, bound) for place, (where, bound) in written.items() if bound is not None
    }
    return effects, value


def join(one: v.Value | None, other: v.Value | None) -> v.Value | None:
    """One value for two that no event can tell apart, None where they differ."""
    if one is other:
        return one
    if one is None or other is None:
        return None
    if type(one) is not type(other):
        return _settled(one, other) or _settled(other, one)
    match one, other:
        case v.Unknown(), v.Unknown():
            return _unknowns(one, other)
        case v.Const(value=a), v.Const(value=b):
            return one if a == b else None
        case v.Truth(value=a), v.Truth(value=b):
            return one if a == b else None
        case v.Number(), v.Number():
            same = (one.value, one.unit, one.counter) == (other.value, other.unit, other.counter)
            return one if same else None
        case v.Lib(name=a), v.Lib(name=b):
            if a != b and not a.startswith("torch") and not b.startswith("torch"):
                return v.Unknown(f"{a} or {b}"[:79])
            return one if a == b else None
        case v.Seq(items=a), v.Seq(items=b):
            if len(a) != len(b):
                return None
            joined = [join(x, y) for x, y in zip(a, b, strict=True)]
            return v.Seq(one.kind, joined) if all(j is not None for j in joined) else None  # type: ignore[arg-type]
        case v.Optimizer(id=a), v.Optimizer(id=b):
            return one if a == b else None
        case v.Model(), v.Model():
            same = (one.id, one.wrapper, one.bypassed) == (other.id, other.wrapper, other.bypassed)
            return one if same else None
        case v.GradientNorm(), v.GradientNorm():
            reads = (one.reads or frozenset()) | (other.reads or frozenset())
            return v.GradientNorm(one.parameters, reads, one.unscaled and other.unscaled)
        case _:
            return None


def _settled(plain: v.Value, unknown: v.Value) -> v.Value | None:
    """An option that one arm sets to a literal is as unknown afterwards as it was before; a window's length is not."""
    if not isinstance(plain, (v.Number, v.Truth, v.Const)) or not isinstance(unknown, v.Unknown):
        return None
    if unknown.flow is not None or unknown.role is not None or unknown.varying or names_window(unknown.text):
        return None
    if isinstance(plain, v.Number) and (plain.counter or plain.boundary or plain.unit != PLAIN):
        return None
    return unknown


def _unknowns(one: v.Unknown, other: v.Unknown) -> v.Value | None:
    if one.role is not None or other.role is not None:
        return one if one.role is other.role else None
    if one.modulus != other.modulus:
        return None
    a, b = one.flow or v.Flow(detached=True), other.flow or v.Flow(detached=True)
    if (a.parts, set(a.forwards), a.detached) != (b.parts, set(b.forwards), b.detached):
        return None
    flow = one.flow
    if flow is not None and a.reduction != b.reduction:
        flow = replace(flow, reduction="unknown")
    if one.text == other.text:
        return one
    return v.Unknown(f"{text_of(one)} or {text_of(other)}"[:79], is_varying(one) or is_varying(other), flow)
