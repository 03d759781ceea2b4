"""Methods of roles: scalers, optimizers, schedulers, averages and models."""

from __future__ import annotations

from typing import Literal

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.running import emitting, iterators
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.casting import pass_through
from ampcheck.running.describing import flow_of
from ampcheck.running.machine import Machine
from ampcheck.running.returning import given_back
from ampcheck.running.roles import (
    as_optimizer,
    freeze,
    is_frozen,
    owners_of,
)

__all__ = ["SAME", "call_model", "on_average", "on_model", "on_optimizer", "on_scaler", "on_scheduler"]

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


def on_scaler(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
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
            return _scaled_step(machine, it, optimizer, given, node) if optimizer is not None else v.NONE
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
        case "state_dict":
            emitting.take_state(machine, it, node)
            return v.Unknown(f"{it.id}.state_dict()")
        case _:
            return v.Unknown(f"{it.id}.{name}()")


def _scaled_step(
    machine: Machine, scaler: v.Scaler, optimizer: v.Optimizer, given: Arguments, node: p.Expr
) -> v.Value:
    """``scaler.step(optimizer)``, with a closure or without."""
    closure = given.get(1, "closure") or v.NONE
    passed: Literal["", "keyword", "positional"] = ""
    if isinstance(closure, (v.Function, v.Bound, v.Partial)):
        passed = "keyword" if "closure" in given.keywords else "positional"
        machine.call(closure, [], {}, node)
    record = emitting.step(machine, optimizer, node, scaler, not _is_none(closure), passed)
    by_scaler = isinstance(record.event, ev.Step) and record.event.scaler is not None
    if by_scaler and _is_none(closure):
        return v.StepResult(scaler.id, optimizer.id)
    return v.NONE if _is_none(closure) else v.Unknown(f"{scaler.id}.step()", True)


def on_optimizer(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Optimizer)
    match name:
        case "step":
            closure = given.get(0, "closure")
            if isinstance(closure, (v.Function, v.Bound)):
                machine.call(closure, [], {}, node)
            emitting.step(machine, it, node, closure=closure is not None and not _is_none(closure))
            return v.NONE
        case "synchronize":
            emitting.reduce(machine, it, node)
            return v.NONE
        case "skip_synchronize":
            return v.Context("null")
        case "zero_grad":
            to_none = given.get(0, "set_to_none")
            emitting.zero_grad(
                machine, (it.id,), not (isinstance(to_none, v.Truth) and not to_none.value), node
            )
            return v.NONE
        case "add_param_group":
            iterators.consume(machine, given.get(0, "param_group"), node.site)
            return v.NONE
        case _:
            return v.Unknown(f"{it.id}.{name}()")


def _is_none(value: v.Value) -> bool:
    return isinstance(value, v.Const) and value.value is None


def on_scheduler(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Scheduler)
    if name == "step":
        emitting.schedule(machine, it, bool(given.all), node)
        return v.NONE
    return v.Unknown(f"{it.id}.{name}()")


def on_average(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Average)
    if name in ("update_parameters", "update", "step"):
        machine.emit(ev.AverageUpdate(site=node.site, average=it.id))
        return v.NONE
    return v.Unknown(f"{it.id}.{name}()")


def on_model(machine: Machine, it: v.Value, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    assert isinstance(it, v.Model)
    match name:
        case "parameters" | "named_parameters" | "trainable_parameters":
            every = v.Parameters((it.id,), each=it.id.endswith(".*"), text=f"{it.id}.{name}()")
            own = it.instance is not None and name in it.instance.cls.members
            return every if own or name[0] == "t" else iterators.iterator_over(machine, every)
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
            emitting.clip(machine, "norm", v.Parameters((it.id,)), given.get(0, "max_norm"), node, "model")
            return v.GradientNorm(v.Parameters((it.id,)), frozenset())
        case "state_dict" | "load_state_dict" | "register_comm_hook" | "register_forward_hook":
            return v.Unknown(f"{it.id}.{name}()")
        case _ if name in SAME or name in ("compile", "gradient_checkpointing_enable"):
            return it
    found = _own_method(machine, it, name, given, node)
    if found is not None:
        return found
    if name == "forward":
        return call_model(machine, it, given, node)
    emitting.may_freeze(machine, [it], name, node)
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
    flow = v.Flow(forwards=(pass_through(machine, it),))
    if machine.no_grad or is_frozen(machine, (it.id,)):
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
    return given_back(_forward(machine, it, given, f"{it.id}(...)"), it.returns)
