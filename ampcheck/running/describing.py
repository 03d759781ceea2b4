"""What can be said of any value: how it is spelled, whether it varies, what it brings to a backward."""

from __future__ import annotations

import re
from dataclasses import replace

from ampcheck.running import values as v

__all__ = ["asks_for_finiteness", "flow_of", "is_varying", "text_of"]


def text_of(value: v.Value) -> str:
    """How messages and atoms spell a value."""
    match value:
        case v.Derivative(text=text):
            return text
        case v.Unknown(text=text) | v.Foreign(text=text) | v.Atom(text=text) | v.Strided(text=text):
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


def asks_for_finiteness(value: v.Value) -> bool:
    """Whether a test or mask tells what is finite from what is not."""
    return re.search(r"is_?nan|is_?inf|is_?finite", text_of(value)) is not None


def is_varying(value: v.Value | None) -> bool:
    """Whether a value differs between micro-batches."""
    match value:
        case v.Unknown(varying=varying, flow=flow):
            return varying or flow is not None
        case v.Atom(varying=varying):
            return varying
        case v.Gradient() | v.GradientNorm() | v.Reading() | v.Derivative():
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
    if isinstance(value, v.Derivative):
        undivided = frozenset({value.record}) if value.unit.is_scaled else frozenset[int]()
        return replace(value.flow, undivided=undivided)
    if isinstance(value, v.Seq):
        flows = [f for f in (flow_of(item) for item in value.items) if f is not None]
        if flows:
            total = flows[0]
            for flow in flows[1:]:
                total = total.plus(flow)
            return total
    return None
