"""Methods of the domain's values: what ``receiver.name(...)`` does, by the receiver's kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from ampcheck import program as p
from ampcheck.running import derivatives, emitting
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.arithmetic import binary, coerce, weighted_mean
from ampcheck.running.container_methods import (
    on_context,
    on_dict,
    on_iterable,
    on_number,
    on_reading,
    on_sequence,
)
from ampcheck.running.describing import flow_of, is_varying, text_of
from ampcheck.running.gradient_methods import on_gradient, on_norm, on_parameters
from ampcheck.running.machine import Infeasible, Machine
from ampcheck.running.naming import names_optimizer
from ampcheck.running.role_methods import (
    SAME,
    on_average,
    on_model,
    on_optimizer,
    on_scaler,
    on_scheduler,
)
from ampcheck.running.roles import (
    as_model,
    as_optimizer,
    as_scaler,
    as_scheduler,
)

__all__ = ["call_method"]


Handler = Callable[[Machine, "v.Value", str, Arguments, p.Expr], "v.Value | None"]


def call_method(
    machine: Machine, receiver: v.Value, name: str, given: Arguments, node: p.Expr
) -> v.Value | None:
    """The result of a method call, None when the method means nothing here."""
    if isinstance(receiver, v.Unknown) and receiver.role is not None:
        receiver = receiver.role
    if isinstance(receiver, v.Const) and receiver.value is None and name in STEPPING:
        raise Infeasible
    if isinstance(receiver, v.Instance):  # an optimizer that an engine wraps
        method = machine.evaluate_attribute(receiver, name)
        return machine.call(method, given.args, given.keywords, node) if isinstance(method, v.Bound) else None
    handler = HANDLERS.get(type(receiver))
    return handler(machine, receiver, name, given, node) if handler else None


# Nobody calls these on None; what else is called on a None may have been set where this run does not look.
STEPPING = frozenset(
    {"scale", "unscale_", "step", "update", "get_scale", "backward", "zero_grad", "parameters"}
)
REDUCTIONS: dict[str, Literal["mean", "sum"]] = {"mean": "mean", "sum": "sum"}

TENSOR_SAME = frozenset(
    [
        "float",
        "double",
        "to",
        "cuda",
        "cpu",
        "contiguous",
        "clone",
        "view",
        "reshape",
        "squeeze",
        "unsqueeze",
        "flatten",
        "type",
        "half",
        "bfloat16",
        "mean",
        "sum",
        "log",
        "exp",
        "abs",
        "pow",
        "sqrt",
        "max",
        "min",
        "softmax",
        "log_softmax",
        "norm",
        "item",
        "tolist",
    ]
)


def _unknown(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    """Methods of unknown values: some give the value's role away, some keep its flow."""
    assert isinstance(it, v.Unknown)
    role = _promoted(machine, it, name, given)
    if role is not None:
        return call_method(machine, it.role if isinstance(it.role, v.Instance) else role, name, given, node)
    match name:
        case "chunk" | "split" | "tensor_split" if given.args:
            pieces = coerce(machine, given.args[0])
            spelling = text_of(given.args[0]) if name != "split" else ""
            if isinstance(pieces, v.Number) and not pieces.symbol and name != "split":
                return v.Items("range", f"{it.text}.{name}()", length=int(pieces.value), window=spelling)
            return v.Items("data", f"{it.text}.{name}()", window=spelling)
        case "backward" if _is_loss(machine, it, given):
            emitting.backward(machine, it, node, given.keywords.get("inputs"))
            return v.NONE
        case "backward":
            # An engine's own backward: what it does is not modelled here, so nothing is said of its gradients.
            roles: list[v.Value] = [v.Optimizer(o.id) for o in machine.optimizers()]
            emitting.escape(machine, roles, f"{it.text}.backward", node)
            return v.NONE
        case "detach" | "detach_" | "item" | "tolist" | "cpu" | "numpy":
            detached = v.Unknown(f"{it.text}.{name}()", is_varying(it), v.Flow(detached=True))
            if name == "detach_":
                machine.touch()
                machine.rebind(it, detached)
            return detached
        case "div_" | "mul_" | "div" | "mul" | "divide" | "multiply" if given.args:
            result = binary(machine, "/" if name.startswith("d") else "*", it, given.args[0], it.text)
            if name.endswith("_") and isinstance(result, v.Unknown):
                machine.touch()
                machine.rebind(it, result)
                return result
            return result
        case "add" | "add_" | "sub" if given.args:
            return binary(machine, "+", it, given.args[0], it.text)
    if it.flow is not None and name in TENSOR_SAME:
        # What is reduced already has one number left, or one a device.
        reduction = it.flow.reduction
        if reduction == "unknown":
            reduction = REDUCTIONS.get(name, "unknown")
        flow = weighted_mean(it.flow) if name == "mean" else it.flow
        kept = replace(flow, reduction=reduction)
        return v.Unknown(it.text if name != "item" else f"{it.text}.item()", True, kept)
    if name in SAME and it.flow is None and not it.varying:
        return it
    if name == "enter_context" and given.args and isinstance(given.args[0], v.Instance):
        method = machine.evaluate_attribute(given.args[0], "__enter__")
        machine.stacks.append(given.args[0])
        return machine.call(method, [], {}, node) if isinstance(method, v.Bound) else given.args[0]
    if name == "enter_context" and given.args and isinstance(given.args[0], v.Context):
        machine.enter(given.args[0], node)
        machine.stacks.append(given.args[0])
        return given.args[0]
    return None


def _is_loss(machine: Machine, it: v.Unknown, given: Arguments) -> bool:
    """``loss.backward()`` has no positional argument that is itself a loss (``engine.backward(loss)`` has)."""
    first = given.get(0, "gradient", "loss")
    return (
        first is None
        or not (isinstance(first, v.Unknown) or flow_of(first) is not None)
        or it.flow is not None
    )


def _promoted(machine: Machine, it: v.Unknown, name: str, given: Arguments) -> v.Value | None:
    """The role that a method's use gives away."""
    first = given.args[0] if given.args else given.keywords.get("optimizer")
    match name:
        case "unscale_":
            return as_scaler(machine, it, forced=first is not None)
        case "scale" | "get_scale" if given.args or name == "get_scale":
            return as_scaler(machine, it)
        case "update":
            return as_scaler(machine, it)
        case "step" if first is not None:
            scaler = as_scaler(machine, it)
            if scaler is not None and as_optimizer(machine, first, forced=True) is not None:
                return scaler
            return as_scheduler(machine, it) or as_optimizer(machine, it)
        case "step":
            return as_scheduler(machine, it) or as_optimizer(machine, it)
        case "zero_grad":
            if names_optimizer(it.text) or any(o.id == it.text for o in machine.setting.optimizers):
                return as_optimizer(machine, it, forced=True)
            return as_model(machine, it)
        case "parameters" | "named_parameters" | "no_sync" | "set_requires_gradient_sync":
            return as_model(machine, it)
        case "half" if not it.varying and "item of" not in it.text and "state" not in it.text:
            return as_model(machine, it)
        case "train" | "eval" if not given.args or isinstance(given.args[0], v.Truth):
            return as_model(machine, it)
        case _:
            return None


def _derivative(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Derivative)
    if name == "backward":
        whole = replace(it.flow, parts=tuple(u.times(it.unit) for u in it.flow.parts))
        emitting.backward(machine, v.Unknown(it.text, True, whole), node)
        return v.NONE
    return derivatives.method(machine, it, name, given.all, node)


HANDLERS: dict[type, Handler] = {
    v.Scaler: on_scaler,
    v.Optimizer: on_optimizer,
    v.Scheduler: on_scheduler,
    v.Average: on_average,
    v.Model: on_model,
    v.Parameters: on_parameters,
    v.Gradient: on_gradient,
    v.GradientNorm: on_norm,
    v.Derivative: _derivative,
    v.Context: on_context,
    v.Seq: on_sequence,
    v.DictValue: on_dict,
    v.Unknown: _unknown,
    v.Items: on_iterable,
    v.Number: on_number,
    v.Reading: on_reading,
}
