"""Methods of parameters and their gradients: those with a trailing underscore change the buffer."""

from __future__ import annotations

from ampcheck import program as p
from ampcheck.running import emitting, norms
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.arithmetic import binary
from ampcheck.running.describing import asks_for_finiteness
from ampcheck.running.machine import Machine
from ampcheck.running.roles import (
    freeze,
    owners_of,
)

__all__ = ["on_gradient", "on_norm", "on_parameters"]


def on_parameters(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Parameters)
    match name:
        case "register_hook" | "register_post_accumulate_grad_hook":
            hook = given.get(0, "hook")
            if hook is not None:
                machine.touch()
                of_gradient = name == "register_hook"
                machine.hooks += [(model, hook, of_gradient, machine.picked) for model in it.models]
            return v.NONE
        case "requires_grad_":
            value = given.get(0, "requires_grad")
            frozen = isinstance(value, v.Truth) and not value.value
            if not it.partial:
                freeze(machine, it.models, frozen)
            return it
        case "append" | "extend" | "add":
            return v.NONE
        case "values" | "items" | "copy" | "parameters":
            return it
        case _:
            return v.Unknown(f"{it.text}.{name}()")


def on_gradient(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    """Methods of ``p.grad``: those with a trailing underscore change the buffer."""
    assert isinstance(it, v.Gradient)
    base = name.removesuffix("_")
    operand = given.get(0, "other", "min", "mask", "condition")
    result: v.Value
    match base:
        case "mul" | "multiply" | "div" | "divide" | "true_divide" if operand is not None:
            result = binary(machine, "*" if base.startswith("mul") else "/", it, operand, "")
        case "add" | "sub" if isinstance(operand, (v.Gradient, v.GradientNorm)):
            return it
        case "copy" if isinstance(operand, v.Gradient):
            result = operand
        case "copy":  # made elsewhere, of these gradients (a projection) or of nothing of theirs
            owners, _ = owners_of(machine, it.parameters)
            emitting.escape(machine, [v.Optimizer(o) for o in owners], "p.grad.copy_(...)", node)
            return it
        case "add" | "sub" | "lerp" | "addcmul" | "normal" | "uniform":
            result = v.Gradient(it.parameters, "shift")
        case "sign" | "round" | "pow" | "sqrt" | "tanh" | "sgn":
            result = v.Gradient(it.parameters, "nonlinear")
        case "clamp" | "clip" | "clamp_max" | "clamp_min":
            result = v.Gradient(it.parameters, "clamp")
        case "nan_to_num":
            result = v.Gradient(it.parameters, "hide")
        case "masked_fill" | "where":
            hides = operand is not None and asks_for_finiteness(operand)
            result = v.Gradient(it.parameters, "hide" if hides else "multiply")
        case "zero":
            owners, _ = owners_of(machine, it.parameters)
            emitting.zero_grad(machine, owners, False, node)
            return it
        case "square":
            return v.GradientNorm(it.parameters)
        case "data" | "detach" | "view" | "reshape" | "flatten" | "float" | "to" | "cpu" | "contiguous":
            return it
        case "clone" | "abs":
            return it
        case _ if norms.is_reduction(base):
            return norms.taken(machine, it, node)
        case "isnan" | "isinf" | "isfinite":
            return v.Atom(f"{base} of the gradients", True, base == "isfinite", finite=True)
        case _:
            return v.Unknown(f"gradient.{name}()", True)
    if isinstance(result, v.Gradient) and result.at is None:
        result.at = node.site
    if name.endswith("_") and isinstance(result, v.Gradient):
        emitting.edit(machine, result, node)
        return v.Gradient(it.parameters)
    return result


def on_norm(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.GradientNorm)
    if name in ("isnan", "isinf", "isfinite"):
        return v.Atom(f"{name} of the gradients' norm", True, name == "isfinite", finite=True)
    if it.reads is None and norms.is_reduction(name):
        return norms.passed_on(machine, name, [it], node)
    return it
