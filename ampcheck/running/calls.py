"""Calls: functions of the project are inlined, known libraries' names are looked up, the rest is opaque."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from ampcheck import program as p
from ampcheck.events import Forward
from ampcheck.library import torch as lib
from ampcheck.running import builtins as known
from ampcheck.running import emitting, roles
from ampcheck.running import values as v
from ampcheck.running.arithmetic import flow_of, is_varying, text_of
from ampcheck.running.machine import (
    MAX_CALLS,
    MAX_DEPTH,
    Frame,
    Machine,
    Signal,
)
from ampcheck.running.methods import Arguments, call_method, call_model
from ampcheck.running.naming import names_optimizer, names_scaler, names_scheduler

__all__ = ["bind", "call_function", "call_value"]

HARMLESS = re.compile(
    r"print|log|save|checkpoint|ckpt|state_dict|info|debug|len$|isinstance|repr|str$|format|load|resume|wandb|"
    r"lr$|learning_rate|count|watch|hasattr|set_lr|adjust|summary|id$|type$|eval|valid|test|metric|dataset|loader|"
    r"get_|seed|plot|snapshot|describe|register|broadcast",
    re.IGNORECASE,
)
# What these return says something of an object, and is no data that came through it.
ABOUT_OBJECTS = frozenset({"isinstance", "issubclass", "hasattr", "callable", "type", "id", "repr", "len"})
AVERAGES = re.compile(r"(^|[._])(Averaged?Model|(Model)?EMA\w*|\w*EMA|ExponentialMovingAverage|SWA\w*)$")


def call_value(
    machine: Machine, callee: v.Value, args: list[v.Value], kwargs: dict[str, v.Value], node: p.Expr
) -> v.Value:
    """The result of a call."""
    given = Arguments(args, kwargs)
    match callee:
        case v.Lib():
            return _library(machine, callee, given, node)
        case v.Method(receiver=receiver, name=name):
            result = call_method(machine, receiver, name, given, node)
            return (
                result
                if result is not None
                else _opaque(machine, f"{text_of(receiver)}.{name}", given, node, receiver)
            )
        case v.Builtin(call=call):
            return call(machine, given, node)
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
            return _opaque(machine, text_of(callee), given, node, callee)


def _called_unknown(machine: Machine, callee: v.Unknown, given: Arguments, node: p.Expr) -> v.Value:
    match callee:
        case v.Unknown(role=v.Model() as model):
            return call_model(machine, model, given, node)
        case v.Unknown(text=text) if text in machine.setting.models:
            model_value = roles.as_model(machine, callee)
            assert model_value is not None
            return call_model(machine, model_value, given, node)
        case _:
            return _opaque(machine, callee.text, given, node, callee)


# --- functions of the project -----------------------------------------------------------------------------------


def call_function(
    machine: Machine, function: v.Function, args: list[v.Value], kwargs: dict[str, v.Value], node: p.Expr
) -> v.Value:
    """Run a function's body in a frame of its own."""
    machine.called += 1
    if machine.called > MAX_CALLS:
        machine.cap(f"more than {MAX_CALLS} calls")
    if machine.depth >= MAX_DEPTH or machine.active.count(function.node) > 1:
        return v.Unknown(machine.text(node), True)
    frame = Frame(parent=function.frame, owner=function.owner)
    bind(machine, frame, function.node.parameters, args, kwargs)
    if isinstance(function.node, p.Lambda):
        return _in_frame(machine, frame, lambda: machine.evaluate(function.node.body), function.node, node)  # type: ignore[arg-type]
    body = function.node.body
    machine.entered.add(function.node)
    if function.node.generator:
        frame.yields = []
    return _in_frame(machine, frame, lambda: _run(machine, body), function.node, node)


def _run(machine: Machine, body: tuple[p.Stmt, ...]) -> v.Value:
    """A function's result: what it returns, or what its generator yields."""
    frame = machine.frame
    result: v.Value = v.NONE
    try:
        machine.execute(body)
    except Signal as signal:
        if signal.kind not in ("return", "enough"):
            raise
        result = signal.value
    if frame.yields is not None:
        return v.Items("items", items=frame.yields, text="a generator")
    return result


def _in_frame(
    machine: Machine, frame: Frame, run: Callable[[], v.Value], function: p.Node, node: p.Expr
) -> v.Value:
    outer, guards = machine.frame, len(machine.guards)
    without_gradients = isinstance(function, p.FunctionDef) and any(
        text.rstrip("()").endswith(("no_grad", "inference_mode"))
        for text in map(machine.text, function.decorators)
    )
    machine.no_grad += without_gradients
    machine.frame = frame
    machine.depth += 1
    machine.calls.append(node.site)
    machine.active.append(function)
    try:
        return run()
    finally:
        machine.frame = outer
        machine.no_grad -= without_gradients
        machine.depth -= 1
        machine.calls.pop()
        machine.active.pop()
        del machine.guards[guards:]


def bind(
    machine: Machine,
    frame: Frame,
    parameters: tuple[p.Parameter, ...],
    args: list[v.Value],
    kwargs: dict[str, v.Value],
) -> None:
    """Bind arguments to parameters; what is missing takes its default, or stays unknown under its own name."""
    rest, keywords = list(args), dict(kwargs)
    keyword_only = False
    for parameter in parameters:
        name = parameter.name
        if parameter.star == "*":
            keyword_only = True
            if name:
                frame.names[name] = v.Seq("tuple", rest)
                rest = []
        elif parameter.star == "**":
            frame.names[name] = v.DictValue(dict(keywords))
        elif rest and not keyword_only:
            frame.names[name] = rest.pop(0)
            keywords.pop(name, None)
        elif name in keywords:
            frame.names[name] = keywords.pop(name)
        elif parameter.default is not None:
            frame.names[name] = machine.evaluate(parameter.default)
        else:
            frame.names[name] = v.Unknown(name, argument=True)


def _instantiate(machine: Machine, cls: v.Class, given: Arguments, node: p.Expr) -> v.Value:
    name = cls.node.name
    kind = known.class_kind(machine, cls)
    if kind == "scaler" and not any(
        isinstance(s, p.FunctionDef) and s.name in ("step", "update", "unscale_") for s in cls.node.body
    ):
        return roles.build_scaler(machine, name, given.keywords, node, name)
    if kind == "optimizer":
        return roles.build_optimizer(machine, name, given.get(0, "params"), node)
    if kind == "scheduler":
        return roles.build_scheduler(machine, name, given.all, node)
    if kind == "average" or AVERAGES.search(name):
        return roles.build_average(machine, name, node)
    instance = v.Instance(cls, machine.hint or "")
    init = machine.evaluate_attribute(instance, "__init__")
    if isinstance(init, v.Bound):
        hint, machine.hint = machine.hint, ""
        machine.call(init, given.args, given.keywords, node)
        machine.hint = hint
    return instance


def _call_instance(machine: Machine, instance: v.Instance, given: Arguments, node: p.Expr) -> v.Value:
    method = machine.evaluate_attribute(instance, "__call__")
    if isinstance(method, v.Bound):
        return machine.call(method, given.args, given.keywords, node)
    model = roles.as_model(machine, instance)
    assert model is not None
    return call_model(machine, model, given, node)


# --- libraries --------------------------------------------------------------------------------------------------


def _library(machine: Machine, callee: v.Lib, given: Arguments, node: p.Expr) -> v.Value:
    name = callee.name
    last = name.rsplit(".", 1)[-1]
    builtin = known.BUILTINS.get(name) or known.BUILTINS.get(last)
    if builtin is not None:
        result = builtin(machine, given, node)
        if result is not None:
            return result
    if name.startswith(lib.ENGINES):
        return v.Foreign(last)
    if name in lib.SCALER_FACTORIES:
        return roles.build_scaler(machine, last, given.keywords, node, last)
    if last in lib.SCALERS:
        if not lib.is_torch(name) and not name.startswith((".", "fairscale")):
            return v.Unknown(text_of(callee) + "()")
        return roles.build_scaler(machine, last, given.keywords, node, last)
    if last in lib.CLIPS:
        return _clip(machine, last, given, node)
    if last in lib.WRAPPERS:
        wrapper = "" if name.startswith("apex") else lib.WRAPPERS[last]
        return roles.wrap(machine, given.get(0, "module") or v.NONE, wrapper, node)
    if last in lib.AUTOCASTS:
        return _autocast(machine, given)
    if last in lib.OPTIMIZERS and given.all:
        detail = f"torch.optim.{last}" if lib.is_torch(name) else last
        return roles.build_optimizer(machine, detail, given.get(0, "params"), node)
    if last in lib.SCHEDULERS or (last.endswith(("LR", "Scheduler")) and "lr_scheduler" in name):
        return roles.build_scheduler(machine, last, given.all, node)
    if AVERAGES.search(last):
        return roles.build_average(machine, last, node)
    if last in lib.LOSSES:
        return _loss(machine, last, given)
    return _opaque(machine, name, given, node, callee)


def _clip(machine: Machine, last: str, given: Arguments, node: p.Expr) -> v.Value:
    target = given.get(0, "parameters")
    bound = given.get(1, "max_norm", "clip_value")
    strict = given.get(3, "error_if_nonfinite")
    raises = isinstance(strict, v.Truth) and strict.value
    return emitting.clip(machine, lib.CLIPS[last], target, bound, node, strict=raises)


def _autocast(machine: Machine, given: Arguments) -> v.Value:
    enabled = given.keywords.get("enabled")
    if isinstance(enabled, v.Truth) and not enabled.value:
        return v.Context("null")
    dtype = given.keywords.get("dtype") or next((a for a in given.args if isinstance(a, v.Lib)), None)
    if isinstance(dtype, v.Lib):
        return v.Context(
            "autocast",
            dtype={"half": "float16"}.get(dtype.name.rsplit(".", 1)[-1], dtype.name.rsplit(".", 1)[-1]),
        )
    return v.Context("autocast", dtype="" if dtype is not None else "float16")


def _loss(machine: Machine, last: str, given: Arguments) -> v.Value:
    """A loss function or its class; torch's average unless told otherwise."""
    reduction = given.keywords.get("reduction")
    how = str(reduction.value) if isinstance(reduction, v.Const) else "mean"
    if last[0].isupper():
        result = v.Unknown(last)
        result.attributes["reduction"] = v.Const(how)
        return result
    flow = _flow(machine, given)
    return v.Unknown(last, True, replace(flow, reduction=_reduction(v.Const(how))))


def _reduction(how: v.Value) -> Literal["mean", "sum", "unknown"]:
    match how:
        case v.Const(value="mean" | "sum" as known_reduction):
            return known_reduction  # type: ignore[no-any-return]
        case _:
            return "unknown"


# --- the rest ---------------------------------------------------------------------------------------------------


def _flow(machine: Machine, given: Arguments) -> v.Flow:
    """What the arguments of an opaque call bring along."""
    flow: v.Flow | None = None
    for argument in given.all:
        more = flow_of(argument)
        model = argument.role if isinstance(argument, v.Unknown) else argument
        if isinstance(model, v.Model) and not machine.no_grad:
            more = v.Flow(forwards=(_unseen_forward(machine, model),))
        if more is not None and not more.detached:
            flow = more if flow is None else flow.plus(more)
    return flow or v.Flow(detached=bool(machine.no_grad))


def _unseen_forward(machine: Machine, model: v.Model) -> Forward:
    """The forward pass that unseen code is taken to do with a model it is given."""
    return Forward(model.id, model.wrapper, model.bypassed, model.id not in machine.unsynced)


def _opaque(machine: Machine, name: str, given: Arguments, node: p.Expr, callee: v.Value) -> v.Value:
    """A call that cannot be seen into."""
    last = name.rsplit(".", 1)[-1]
    if isinstance(callee, v.Unknown) and "reduction" in callee.attributes:
        averaged = replace(_flow(machine, given), reduction=_reduction(callee.attributes["reduction"]))
        return v.Unknown(f"{name}(...)", True, averaged)
    gradients = [a for a in given.all if isinstance(a, v.Gradient)]
    if gradients:
        return known.of_gradient(machine, last, gradients[0], given, node)
    if any(isinstance(a, v.GradientNorm) for a in given.all) or isinstance(callee, v.GradientNorm):
        if last in ("isfinite", "isnan", "isinf"):
            return v.Atom(f"{last} of the gradients' norm", True, last == "isfinite", finite=True)
        return v.GradientNorm(None)
    built = _constructed(machine, last, given, node)
    if built is not None:
        return built
    if not _is_harmless(last):
        emitting.escape(machine, given.all, last, node)
    text = machine.text(node)
    arguments = ", ".join(
        [text_of(a) for a in given.args] + [f"{k}={text_of(a)}" for k, a in given.keywords.items()]
    )
    spelled = f"{name}({arguments})"
    receiver_flow = flow_of(callee.receiver) if isinstance(callee, v.Method) else flow_of(callee)
    if receiver_flow is None and isinstance(callee, v.Unknown):
        receiver_flow = callee.flow
    flows = [f for f in [receiver_flow, *map(flow_of, given.all)] if f is not None]
    if last in ABOUT_OBJECTS:
        return v.Unknown(
            spelled if len(spelled) < 80 else text,
            any(isinstance(a, v.Unknown) and a.varying for a in given.all),
        )
    has_model = any(isinstance(a.role if isinstance(a, v.Unknown) else a, v.Model) for a in given.all)
    varying = any(is_varying(a) for a in given.all) or is_varying(callee) or bool(flows)
    if (isinstance(callee, v.Lib) and callee.name.split(".")[0] in ("random", "time")) or last in (
        "rand",
        "randint",
        "random",
    ):
        varying = True
    flow: v.Flow | None = None
    if flows or has_model:
        flow = _flow(machine, given)
        if receiver_flow is not None:
            flow = flow.plus(receiver_flow) if not flow.detached else receiver_flow
    if last in ("no_grad", "inference_mode"):
        return v.Context("no_grad")
    if last == "set_grad_enabled":
        wanted = given.get(0, "mode")
        return v.Context("no_grad" if isinstance(wanted, v.Truth) and not wanted.value else "null")
    if last in ("nullcontext", "enable_grad"):
        return v.Context("null")
    return v.Unknown(spelled if len(spelled) < 80 else text, varying, flow)


@lru_cache(maxsize=4096)
def _is_harmless(name: str) -> bool:
    """Whether a function of this name is not expected to touch gradients, whatever it is given."""
    return HARMLESS.search(name) is not None


def _constructed(machine: Machine, last: str, given: Arguments, node: p.Expr) -> v.Value | None:
    """Classes and factories that cannot be seen, known by their names and by what they are given."""
    hint = machine.hint
    has_optimizer = any(isinstance(a.role if isinstance(a, v.Unknown) else a, v.Optimizer) for a in given.all)
    if has_optimizer and (names_scheduler(last) or last.endswith("LR") or names_scheduler(hint)):
        return roles.build_scheduler(machine, last, given.all, node)
    if AVERAGES.search(last) and given.all:
        return roles.build_average(machine, last, node)
    parameters = [roles.parameters_of(machine, a) for a in given.all if isinstance(a, (v.Parameters, v.Seq))]
    if any(q is not None for q in parameters) and (
        last in lib.OPTIMIZERS or names_optimizer(hint) or ("opt" in hint.lower() and last[:1].isupper())
    ):
        given_parameters = next(a for a in given.all if isinstance(a, (v.Parameters, v.Seq)))
        return roles.build_optimizer(machine, last, given_parameters, node, last in lib.OPTIMIZERS)
    if names_scaler(last) and hint and last[:1].isupper() and last in lib.SCALERS:
        return roles.build_scaler(machine, last, given.keywords, node, last)
    return None
