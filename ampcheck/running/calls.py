"""Calls: functions of the project are inlined, known libraries' names are looked up, the rest is opaque."""

from __future__ import annotations

from functools import lru_cache

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.running import fields, roles
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.casting import in_force
from ampcheck.running.classes import class_kind
from ampcheck.running.describing import text_of
from ampcheck.running.importing import imported
from ampcheck.running.inlining import call_function
from ampcheck.running.libraries import call_library
from ampcheck.running.machine import Machine
from ampcheck.running.methods import call_method
from ampcheck.running.opaque import AVERAGES, call_unseen
from ampcheck.running.recomputing import FUNCTION, bare_recompute
from ampcheck.running.returning import given_back
from ampcheck.running.role_methods import call_model
from ampcheck.running.wrappers import build_wrapper

__all__ = ["call_value"]


def call_value(
    machine: Machine, callee: v.Value, args: list[v.Value], kwargs: dict[str, v.Value], node: p.Expr
) -> v.Value:
    """The result of a call."""
    given = Arguments(args, kwargs)
    built = build_wrapper(machine, callee, given, node)
    if built is not None:
        return built
    match callee:
        case v.Lib():
            found = imported(machine, node.site.path, callee.name)
            if not isinstance(found, v.Lib):
                return call_value(machine, found, args, kwargs, node)
            return call_library(machine, callee, given, node)
        case v.Method(receiver=v.Class() as cls, name="apply") if _is_function(cls):
            return _apply(machine, cls, given, node)
        case v.Method(receiver=receiver, name=name):
            result = call_method(machine, receiver, name, given, node)
            return (
                result
                if result is not None
                else call_unseen(machine, f"{text_of(receiver)}.{name}", given, node, receiver)
            )
        case v.Function(node=inner) | v.Bound(function=v.Function(node=inner)) if _is_beside(machine, inner):
            return call_unseen(machine, machine.text(node), given, node, callee, harmless=True)
        case v.Function():
            return call_function(machine, callee, args, kwargs, node)
        case v.Bound(function=function, self=this):
            return call_function(machine, function, [this, *args], kwargs, node)
        case v.Partial(call=inner, arguments=first, keywords=more):
            return call_value(machine, inner, [*first, *args], {**more, **kwargs}, node)
        case v.Class():
            return _instantiate(machine, callee, given, node)
        case v.Model():
            return call_model(machine, callee, given, node)
        case v.Instance():
            return _call_instance(machine, callee, given, node)
        case v.Unknown(role=None, base=base, member=member) if base is not None and member:
            result = call_method(machine, base, member, given, node)
            return result if result is not None else _called_unknown(machine, callee, given, node)
        case v.Unknown():
            return _called_unknown(machine, callee, given, node)
        case v.Foreign(text=text):
            return v.Foreign(f"{text}()")
        case _:
            return call_unseen(machine, text_of(callee), given, node, callee)


def _is_function(cls: v.Class) -> bool:
    return any(isinstance(base, v.Lib) and base.name == FUNCTION for base in cls.bases)


def _apply(machine: Machine, cls: v.Class, given: Arguments, node: p.Expr) -> v.Value:
    """``Function.apply(...)``: what comes out of it is opaque; a backward that recomputes is an event here."""
    again = bare_recompute(cls.node)
    if again is not None and not machine.no_grad:
        dtype, option = in_force(machine)
        if dtype:
            seen = "" if option or dtype == "?" else dtype
            machine.emit(ev.Recompute(site=again.site, function=cls.node.name, autocast=seen))
    return call_unseen(machine, f"{cls.node.name}.apply", given, node, v.Unknown(cls.node.name))


def _called_unknown(machine: Machine, callee: v.Unknown, given: Arguments, node: p.Expr) -> v.Value:
    match callee:
        case v.Unknown(role=v.Model() as model):
            return call_model(machine, model, given, node)
        case v.Unknown(text=text) if text in machine.setting.models or _has_submodel(machine, text):
            model_value = roles.as_model(machine, callee)
            assert model_value is not None
            return call_model(machine, model_value, given, node)
        case _:
            return given_back(call_unseen(machine, callee.text, given, node, callee), callee.returns)


def _has_submodel(machine: Machine, text: str) -> bool:
    """Whether a part of it turned out to be a model: ``discriminator.heads.parameters()``."""
    return any(name.startswith(f"{text}.") for name in machine.setting.models)


def _instantiate(machine: Machine, cls: v.Class, given: Arguments, node: p.Expr) -> v.Value:
    name = cls.node.name
    kind = class_kind(cls)
    if kind == "scaler" and not any(
        isinstance(s, p.FunctionDef) and s.name in ("step", "update", "unscale_") for s in cls.node.body
    ):
        return roles.build_scaler(machine, name, given.keywords, node, name)
    if kind == "optimizer":
        return roles.build_optimizer(machine, name, given.get(0, "params"), node)
    if kind == "scheduler":
        known = not isinstance(machine.evaluate_attribute(v.Instance(cls), "step"), v.Bound)
        return roles.build_scheduler(machine, name, given.all, node, known)
    if AVERAGES.search(name):
        return roles.build_average(machine, name, node)
    instance = v.Instance(cls, machine.hint or "")
    init = machine.evaluate_attribute(instance, "__init__")
    if isinstance(init, v.Bound):
        hint, machine.hint = machine.hint, ""
        machine.call(init, given.args, given.keywords, node)
        machine.hint = hint
    else:
        fields.fill(machine, instance, given, node)
        after = machine.evaluate_attribute(instance, "__post_init__")
        if isinstance(after, v.Bound):
            machine.call(after, [], {}, node)
    if p.Program.is_model(cls.node.site.path) and "prepare" in cls.members:
        machine.engine = instance
        machine.births[instance] = f"{node.site.path}:{node.site.line}:{node.site.column}"
    return instance


def _call_instance(machine: Machine, instance: v.Instance, given: Arguments, node: p.Expr) -> v.Value:
    method = machine.evaluate_attribute(instance, "__call__")
    if isinstance(method, v.Bound):
        return machine.call(method, given.args, given.keywords, node)
    model = roles.as_model(machine, instance)
    assert model is not None
    return call_model(machine, model, given, node)


# --- other modules' functions -------------------------------------------------------------------------------------

# Up to this size, a function is run whatever it does: a boundary's test, a loss.
SMALL = 120


@lru_cache(maxsize=4096)
def _is_small(body: tuple[p.Stmt, ...]) -> bool:
    return sum(1 for _ in p.walk(*body)) <= SMALL


def _is_beside(machine: Machine, function: p.FunctionDef | p.Lambda) -> bool:
    """Whether a function of another module has nothing to do with a step: it loads data, draws, writes logs."""
    if isinstance(function, p.Lambda) or function in machine.layout.telling:
        return False
    path = function.site.path
    return path != machine.module.path and not machine.program.is_model(path) and not _is_small(function.body)
