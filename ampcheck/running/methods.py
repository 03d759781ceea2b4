"""Methods of the domain's values: what ``receiver.name(...)`` does, by the receiver's kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import Forward
from ampcheck.running import emitting
from ampcheck.running import values as v
from ampcheck.running.arithmetic import binary, coerce, flow_of, is_varying, text_of
from ampcheck.running.machine import Infeasible, Machine
from ampcheck.running.naming import names_optimizer
from ampcheck.running.roles import (
    as_model,
    as_optimizer,
    as_scaler,
    as_scheduler,
    freeze,
    overlaps,
    owners_of,
)

__all__ = ["Arguments", "call_method", "call_model"]

SAME = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "contiguous",
        "clone",
        "view",
        "reshape",
        "squeeze",
        "unsqueeze",
        "requires_grad_",
        "train",
        "eval",
        "type",
        "bfloat16",
        "flatten",
        "permute",
        "transpose",
        "retain_grad",
        "share_memory",
    ]
)


@dataclass(slots=True)
class Arguments:
    """The arguments of a call, with the two ways people pass most of them."""

    args: list[v.Value]
    keywords: dict[str, v.Value]

    def get(self, position: int, *names: str) -> v.Value | None:
        """An argument by position or by one of its names."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[position] if position < len(self.args) else None

    @property
    def all(self) -> list[v.Value]:
        """All arguments."""
        return [*self.args, *self.keywords.values()]


Handler = Callable[[Machine, "v.Value", str, Arguments, p.Expr], "v.Value | None"]


def call_method(
    machine: Machine, receiver: v.Value, name: str, given: Arguments, node: p.Expr
) -> v.Value | None:
    """The result of a method call, None when the method means nothing here."""
    if isinstance(receiver, v.Unknown) and receiver.role is not None:
        receiver = receiver.role
    if isinstance(receiver, v.Const) and receiver.value is None and name in STEPPING:
        raise Infeasible
    handler = HANDLERS.get(type(receiver))
    return handler(machine, receiver, name, given, node) if handler else None


def _scaler(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Scaler)
    match name:
        case "scale":
            value = given.get(0, "outputs")
            return emitting.scale(machine, it, value, node) if value is not None else None
        case "unscale_":
            optimizer = as_optimizer(machine, given.get(0, "optimizer") or v.NONE, forced=True)
            if optimizer is not None:
                emitting.unscale(machine, it, optimizer, node)
            return v.NONE
        case "step":
            optimizer = as_optimizer(machine, given.get(0, "optimizer") or v.NONE, forced=True)
            if optimizer is not None:
                emitting.step(
                    machine, optimizer, node, it, len(given.args) > 1 or "closure" in given.keywords
                )
            return v.NONE
        case "update":
            emitting.update(machine, it, given.get(0, "new_scale") is not None, node)
            return v.NONE
        case "get_scale":
            on, _ = emitting.is_on(machine, it, node)
            if not on:
                return v.Number(1.0)
            machine.touch()
            machine.readings += 1
            machine.emit(ev.ReadScale(site=node.site, scaler=it.id, reading=machine.readings))
            return v.Reading(it.id, machine.readings)
        case "is_enabled":
            return it.enabled
        case _:
            return v.Unknown(f"{it.id}.{name}()")


def _optimizer(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Optimizer)
    match name:
        case "step":
            closure = given.get(0, "closure")
            if isinstance(closure, (v.Function, v.Bound)):
                machine.call(closure, [], {}, node)
            emitting.step(machine, it, node, closure=closure is not None and not _is_none(closure))
            return v.NONE
        case "zero_grad":
            to_none = given.get(0, "set_to_none")
            emitting.zero_grad(
                machine, (it.id,), not (isinstance(to_none, v.Truth) and not to_none.value), node
            )
            return v.NONE
        case "add_param_group":
            return v.NONE
        case _:
            return v.Unknown(f"{it.id}.{name}()")


def _is_none(value: v.Value) -> bool:
    return isinstance(value, v.Const) and value.value is None


def _scheduler(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Scheduler)
    if name == "step":
        emitting.schedule(machine, it, bool(given.all), node)
        return v.NONE
    return v.Unknown(f"{it.id}.{name}()")


def _average(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Average)
    if name in ("update_parameters", "update", "step"):
        machine.emit(ev.AverageUpdate(site=node.site, average=it.id))
        return v.NONE
    return v.Unknown(f"{it.id}.{name}()")


def _model(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Model)
    match name:
        case "parameters" | "named_parameters" | "trainable_parameters":
            return v.Parameters((it.id,), each=it.id.endswith(".*"), text=f"{it.id}.{name}()")
        case "children" | "named_children" | "modules" | "named_modules":
            return v.Items(
                "items", f"{it.id}.{name}()", items=[v.Model(f"{it.id}.*", it.wrapper, it.bypassed)]
            )
        case "zero_grad":
            owners, _ = owners_of(machine, v.Parameters((it.id,)))
            if not owners:
                # Whose gradients these are cannot be told: from here on nothing certain is known of any.
                unseen: list[v.Value] = [v.Optimizer(o.id) for o in machine.optimizers() if not o.models]
                emitting.escape(machine, unseen, f"{it.id}.zero_grad", node)
            to_none = given.get(0, "set_to_none")
            emitting.zero_grad(
                machine, owners, not (isinstance(to_none, v.Truth) and not to_none.value), node
            )
            return v.NONE
        case "no_sync":
            machine.touch()
            emitting.declare(machine, "sync")
            return v.Context("no_sync", it.id)
        case "requires_grad_":
            value = given.get(0, "requires_grad")
            freeze(machine, (it.id,), isinstance(value, v.Truth) and not value.value)
            return it
        case "set_requires_gradient_sync":
            value = given.get(0, "requires_gradient_sync")
            emitting.declare(machine, "sync")
            machine.synchronise(it.id, not (isinstance(value, v.Truth) and not value.value))
            return v.NONE
        case "half":
            machine.emit(ev.Convert(site=node.site, model=it.id, dtype="float16"))
            return it
        case "to" if any(
            isinstance(a, v.Lib) and a.name in ("torch.float16", "torch.half") for a in given.all
        ):
            machine.emit(ev.Convert(site=node.site, model=it.id, dtype="float16"))
            return it
        case "clip_grad_norm_":
            emitting.clip(machine, "norm", v.Parameters((it.id,)), given.get(0, "max_norm"), node)
            return v.GradientNorm(v.Parameters((it.id,)))
        case "state_dict" | "load_state_dict" | "register_comm_hook" | "register_forward_hook":
            return v.Unknown(f"{it.id}.{name}()")
        case _ if name in SAME or name in ("compile", "gradient_checkpointing_enable"):
            return it
    found = _own_method(machine, it, name, given, node)
    if found is not None:
        return found
    return _forward(machine, it, given, f"{it.id}.{name}()")


def _own_method(machine: Machine, it: v.Model, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    """A method that the project defines on its own module, when it holds more than a forward."""
    if it.instance is None or name == "forward":
        return None
    method = machine.evaluate_attribute(it.instance, name)
    if isinstance(method, v.Bound):
        return machine.call(method, given.args, given.keywords, node)
    return None


def _forward(machine: Machine, it: v.Model, given: Arguments, text: str) -> v.Value:
    """A pass through a model."""
    flow = v.Flow(forwards=(Forward(it.id, it.wrapper, it.bypassed, it.id not in machine.unsynced),))
    if machine.no_grad or (overlaps((it.id,), machine.frozen)):
        flow = v.Flow(detached=True)
    for argument in given.all:
        other = flow_of(argument)
        if other is not None and not machine.no_grad:
            flow = v.Flow(
                flow.parts, flow.plus(other).forwards, flow.reduction, flow.detached and other.detached
            )
    return v.Unknown(text, True, flow)


def call_model(machine: Machine, it: v.Model, given: Arguments, node: p.Expr) -> v.Value:
    """``model(x)``."""
    return _forward(machine, it, given, f"{it.id}(...)")


def _parameters(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Parameters)
    match name:
        case "register_hook" | "register_post_accumulate_grad_hook":
            hook = given.get(0, "hook")
            if hook is not None:
                machine.touch()
                of_gradient = name == "register_hook"
                machine.hooks += [(model, hook, of_gradient) for model in it.models]
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


def _gradient(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    """Methods of ``p.grad``: those with a trailing underscore change the buffer."""
    assert isinstance(it, v.Gradient)
    base = name.removesuffix("_")
    operand = given.get(0, "other", "min")
    result: v.Value
    match base:
        case "mul" | "multiply" | "div" | "divide" | "true_divide" if operand is not None:
            result = binary(machine, "*" if base.startswith("mul") else "/", it, operand, "")
        case "add" | "sub" if isinstance(operand, (v.Gradient, v.GradientNorm)):
            return it
        case "add" | "sub" | "copy" | "lerp" | "addcmul" | "normal" | "uniform":
            result = v.Gradient(it.parameters, "shift")
            if base == "copy" and isinstance(operand, v.Gradient):
                result = operand
        case "sign" | "round" | "pow" | "sqrt" | "tanh" | "sgn":
            result = v.Gradient(it.parameters, "nonlinear")
        case "clamp" | "clip" | "clamp_max" | "clamp_min":
            result = v.Gradient(it.parameters, "clamp")
        case "nan_to_num" | "masked_fill" | "where":
            result = v.Gradient(it.parameters, "hide")
        case "zero":
            owners, _ = owners_of(machine, it.parameters)
            emitting.zero_grad(machine, owners, False, node)
            return it
        case "norm" | "mean" | "sum" | "max" | "min" | "item" | "std" | "var" | "square":
            return v.GradientNorm(it.parameters)
        case "data" | "detach" | "view" | "reshape" | "flatten" | "float" | "to" | "cpu" | "contiguous":
            return it
        case "clone":
            return it
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


def _norm(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.GradientNorm)
    if name in ("isnan", "isinf", "isfinite"):
        return v.Atom(f"{name} of the gradients' norm", True, name == "isfinite", finite=True)
    return it


def _context(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Context)
    if name == "__enter__":
        machine.enter(it, node)
    elif name == "__exit__":
        machine.leave(it)
    return v.NONE


def _sequence(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Seq)
    match name:
        case "append" | "add" if given.args:
            machine.touch()
            it.items.append(given.args[0])
            return v.NONE
        case "extend" if given.args:
            machine.touch()
            more = given.args[0]
            it.items.extend(more.items if isinstance(more, v.Seq) else [more])
            return v.NONE
        case "clear":
            machine.touch()
            it.items.clear()
            return v.NONE
        case "zero_grad" | "step":
            return None
        case _:
            return v.Unknown(f"items.{name}()", is_varying(it), flow_of(it))


def _dict(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.DictValue)
    match name:
        case "values":
            return v.Seq("list", list(it.items.values()))
        case "keys":
            return v.Seq("list", [v.Const(k) if isinstance(k, str) else v.Number(k) for k in it.items])
        case "items":
            pairs: list[v.Value] = [v.Seq("tuple", [v.Const(k), item]) for k, item in it.items.items()]
            return v.Seq("list", pairs)
        case "get" if given.args and isinstance(given.args[0], (v.Const, v.Number)):
            default = given.get(1, "default") or v.NONE
            return it.items.get(given.args[0].value, default)
        case "update" if given.args and isinstance(given.args[0], v.DictValue):
            for key, value in given.args[0].items.items():
                machine.store(it.items, key, value)
            return v.NONE
        case _:
            return v.Unknown(f"dict.{name}()")


# Nobody calls these on None; what else is called on a None may have been set where this run does not look.
STEPPING = frozenset(
    {"scale", "unscale_", "step", "update", "get_scale", "backward", "zero_grad", "parameters"}
)
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
        return call_method(machine, role, name, given, node)
    match name:
        case "chunk" | "split" | "tensor_split" if given.args:
            pieces = coerce(machine, given.args[0])
            spelling = text_of(given.args[0]) if name != "split" else ""
            if isinstance(pieces, v.Number) and not pieces.symbol and name != "split":
                return v.Items("range", f"{it.text}.{name}()", length=int(pieces.value), window=spelling)
            return v.Items("data", f"{it.text}.{name}()", window=spelling)
        case "backward" if _is_loss(machine, it, given):
            emitting.backward(machine, it, node)
            return v.NONE
        case "backward":
            # An engine's own backward: what it does is not modelled here, so nothing is said of its gradients.
            roles: list[v.Value] = [v.Optimizer(o.id) for o in machine.optimizers()]
            emitting.escape(machine, roles, f"{it.text}.backward", node)
            return v.NONE
        case "detach" | "detach_" | "item" | "tolist" | "cpu" | "numpy":
            return v.Unknown(f"{it.text}.{name}()", is_varying(it), v.Flow(detached=True))
        case "div_" | "mul_" | "div" | "mul" | "divide" | "multiply" if given.args:
            result = binary(machine, "/" if name.startswith("d") else "*", it, given.args[0], it.text)
            if name.endswith("_") and isinstance(result, v.Unknown):
                machine.touch()
                it.flow = result.flow
                return it
            return result
        case "add" | "add_" | "sub" if given.args:
            return binary(machine, "+", it, given.args[0], it.text)
    if it.flow is not None and name in TENSOR_SAME:
        reduction = {"mean": "mean", "sum": "sum"}.get(name, it.flow.reduction)
        kept = v.Flow(it.flow.parts, it.flow.forwards, reduction, it.flow.detached)  # type: ignore[arg-type]
        return v.Unknown(it.text if name != "item" else f"{it.text}.item()", True, kept)
    if name in SAME and it.flow is None and not it.varying:
        return it
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
            if names_optimizer(it.text):
                return as_optimizer(machine, it)
            return as_model(machine, it)
        case "parameters" | "named_parameters" | "no_sync" | "set_requires_gradient_sync":
            return as_model(machine, it)
        case "half" if not it.varying and "item of" not in it.text and "state" not in it.text:
            return as_model(machine, it)
        case "train" | "eval" if not given.args or isinstance(given.args[0], v.Truth):
            return as_model(machine, it)
        case _:
            return None


def _iterable(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Items)
    return it if name == "__iter__" else v.Unknown(f"{it.text}.{name}()")


def _number(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    return it if name in ("item", "float") else None


def _reading(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    return it


HANDLERS: dict[type, Handler] = {
    v.Scaler: _scaler,
    v.Optimizer: _optimizer,
    v.Scheduler: _scheduler,
    v.Average: _average,
    v.Model: _model,
    v.Parameters: _parameters,
    v.Gradient: _gradient,
    v.GradientNorm: _norm,
    v.Context: _context,
    v.Seq: _sequence,
    v.DictValue: _dict,
    v.Unknown: _unknown,
    v.Items: _iterable,
    v.Number: _number,
    v.Reading: _reading,
}
