"""Calls that cannot be seen into: what comes out of them, and which roles escape."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from ampcheck import program as p
from ampcheck.events import Unit
from ampcheck.library import torch as lib
from ampcheck.running import builtins as known
from ampcheck.running import derivatives, emitting, norms, roles
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.casting import pass_through
from ampcheck.running.classes import class_kind, has_unseen_base
from ampcheck.running.describing import flow_of, is_varying, text_of
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_clip, names_optimizer, names_scaler, names_scheduler

__all__ = ["AVERAGES", "call_unseen", "flow_through", "reduction_of"]

HARMLESS = re.compile(
    r"print|log|save|checkpoint|ckpt|state_dict|info|debug|len$|isinstance|repr|str$|format|load|resume|wandb|"
    r"lr$|learning_rate|count|watch|hasattr|set_lr|adjust|summary|id$|type$|eval|valid|test|metric|dataset|loader|"
    r"get_|seed|plot|snapshot|describe|register|broadcast",
    re.IGNORECASE,
)


# What these return says something of an object, and is no data that came through it.
ABOUT_OBJECTS = frozenset({"isinstance", "issubclass", "hasattr", "callable", "type", "id", "repr", "len"})

# Their arguments give a shape or a type, and nothing of a gradient.
SHAPED = frozenset(
    "expand_as view_as reshape_as type_as ones_like zeros_like full_like empty_like rand_like randn_like".split()
)


AVERAGES = re.compile(
    r"(^|[._])(Averaged?Model|(Model)?E[Mm][Aa]\w*|\w*(EMA|Ema)|ExponentialMovingAverage|SWA\w*)$"
)


def reduction_of(how: v.Value) -> Literal["mean", "sum", "unknown"]:
    match how:
        case v.Const(value="mean" | "sum" as known_reduction):
            return known_reduction  # type: ignore[no-any-return]
        case _:
            return "unknown"


def flow_through(machine: Machine, given: Arguments) -> v.Flow:
    """What the arguments of an opaque call bring along."""
    flow: v.Flow | None = None
    for argument in given.all:
        more = flow_of(argument)
        model = argument.role if isinstance(argument, v.Unknown) else argument
        if isinstance(model, v.Model) and not machine.no_grad:
            more = v.Flow(forwards=(pass_through(machine, model),))  # unseen code is taken to do one
        if more is not None and not more.detached:
            # A function that is given the scaler too may well divide by its scale.
            divides = any(isinstance(a, (v.Scaler, v.Reading)) for a in given.all)
            more = replace(more, undivided=frozenset()) if divides else more
            flow = more if flow is None else flow.plus(more)
    return flow or v.Flow(detached=bool(machine.no_grad))


def call_unseen(
    machine: Machine, name: str, given: Arguments, node: p.Expr, callee: v.Value, harmless: bool = False
) -> v.Value:
    """A call that cannot be seen into, or need not (`harmless`: it is known to leave gradients alone)."""
    last = name.rsplit(".", 1)[-1]
    every = given.all
    if isinstance(callee, v.Unknown) and "reduction" in callee.attributes:
        averaged = replace(
            flow_through(machine, given), reduction=reduction_of(callee.attributes["reduction"])
        )
        how = callee.attributes["reduction"]
        if averaged.reduction == "unknown" and not (isinstance(how, v.Const) and how.value == "none"):
            averaged = averaged.times(Unit(other=frozenset({"reduction"})))
        return v.Unknown(f"{name}(...)", True, averaged)
    if last in ("all_reduce", "broadcast") and given.args and isinstance(given.args[0], v.Unknown):
        _agreed(machine, given.args[0], last)
    gradients = [a for a in every if isinstance(a, v.Gradient)]
    if gradients:
        return known.of_gradient(machine, last, gradients[0], given, node)
    if any(_holds_gradients(a) for a in every) or isinstance(callee, v.GradientNorm):
        if last in ("isfinite", "isnan", "isinf"):
            return v.Atom(f"{last} of the gradients' norm", True, last == "isfinite", finite=True)
        return norms.passed_on(machine, last, [*every, callee], node)
    derived = derivatives.passed_on(machine, last, every)
    if derived is not None:
        return derived
    built = _constructed(machine, last, given, node)
    if built is not None:
        return built
    if isinstance(callee, v.Unknown) and given.args and _is_clip(callee, node):
        parameters = roles.parameters_of(machine, given.args[0])
        if parameters is not None:
            return emitting.clip(machine, "norm", parameters, None, node)
    emitting.may_freeze(machine, every, last, node)
    if not harmless and not _is_harmless(last):
        emitting.escape(machine, [*every, *_held(callee, given)], last, node)
    text = machine.text(node)
    arguments = ", ".join(
        [text_of(a) for a in given.args] + [f"{k}={text_of(a)}" for k, a in given.keywords.items()]
    )
    spelled = f"{name}({arguments})"
    receiver_flow = flow_of(callee.receiver) if isinstance(callee, v.Method) else flow_of(callee)
    if receiver_flow is None and isinstance(callee, v.Unknown):
        receiver_flow = callee.flow
    shaped = [] if last in SHAPED else map(flow_of, every)
    flows = [f for f in [receiver_flow, *shaped] if f is not None]
    if last in ABOUT_OBJECTS:
        return v.Unknown(
            spelled if len(spelled) < 80 else text,
            any(isinstance(a, v.Unknown) and a.varying for a in every),
        )
    has_model = any(isinstance(a.role if isinstance(a, v.Unknown) else a, v.Model) for a in every)
    varying = any(is_varying(a) for a in every) or is_varying(callee) or bool(flows)
    if (isinstance(callee, v.Lib) and callee.name.split(".")[0] in ("random", "time")) or last in (
        "rand",
        "randint",
        "random",
    ):
        varying = True
    flow: v.Flow | None = None
    if flows or has_model:
        flow = flow_through(machine, given) if last not in SHAPED else v.Flow(detached=True)
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


def _is_clip(callee: v.Unknown, node: p.Expr) -> bool:
    """Whether what is called, a function that somebody else chose, is called a clip of gradients."""
    called = node.func if isinstance(node, p.Call) else None
    own = called.attr if isinstance(called, p.Attribute) else called.id if isinstance(called, p.Name) else ""
    return (names_clip(own) or names_clip(callee.text)) and not _is_harmless(own)


def _agreed(machine: Machine, value: v.Unknown, how: str) -> None:
    """``dist.all_reduce(loss)``: from here on the ranks have the same value, and its text says so."""
    machine.touch()
    spelled = f"{how}({value.text})"
    if not value.text.startswith(how):
        machine.rebind(value, replace(value, text=spelled, attributes={}, role=None, base=None, member=""))


def _held(callee: v.Value, given: Arguments) -> list[v.Value]:
    """What unseen code gets at through objects of the project: those it is given, or whose unseen method it is."""
    objects = [a for a in given.all if isinstance(a, v.Instance)]
    if (
        isinstance(callee, v.Unknown)
        and isinstance(callee.base, v.Instance)
        and has_unseen_base(callee.base.cls)
    ):
        objects.append(callee.base)
    return [value for one in objects if class_kind(one.cls) != "module" for value in one.attributes.values()]


def _holds_gradients(value: v.Value) -> bool:
    """A norm of gradients, or a list of gradients or norms: what comes of it sums up over many."""
    if isinstance(value, (v.Seq, v.Items)):
        return any(isinstance(item, (v.Gradient, v.GradientNorm)) for item in value.items)
    if isinstance(value, v.DictValue):
        return any(isinstance(item, v.GradientNorm) for item in value.items.values())
    return isinstance(value, v.GradientNorm)


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
