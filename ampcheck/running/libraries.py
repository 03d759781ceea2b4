"""Calls of known libraries' names, looked up in `ampcheck.library`."""

from __future__ import annotations

from dataclasses import replace

from ampcheck import program as p
from ampcheck.events import Unit
from ampcheck.library import torch as lib
from ampcheck.running import builtins as known
from ampcheck.running import emitting, roles
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.describing import text_of
from ampcheck.running.intrinsics import call_intrinsic
from ampcheck.running.machine import Machine
from ampcheck.running.methods import call_method
from ampcheck.running.opaque import AVERAGES, call_unseen, flow_through, reduction_of

__all__ = ["call_library"]


def call_library(machine: Machine, callee: v.Lib, given: Arguments, node: p.Expr) -> v.Value:
    name = callee.name
    last = name.rsplit(".", 1)[-1]
    intrinsic = call_intrinsic(machine, name, given, node)
    if intrinsic is not None:
        return intrinsic
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
    if lib.is_torch(name) and last == "mean" and given.args and isinstance(given.args[0], v.Unknown):
        averaged = call_method(machine, given.args[0], last, Arguments(given.args[1:], given.keywords), node)
        if averaged is not None:
            return averaged
    return call_unseen(machine, name, given, node, callee)


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
    how = (
        "mean" if reduction is None else str(reduction.value) if isinstance(reduction, v.Const) else "unknown"
    )
    if how == "unknown" and not last[0].isupper():
        # Told how, but not in this file: nothing can be said of its normalisation.
        loss = flow_through(machine, given).times(Unit(other=frozenset({text_of(reduction or v.NONE)})))
        return v.Unknown(last, True, loss)
    if last[0].isupper():
        result = v.Unknown(last)
        result.attributes["reduction"] = v.Const(how)
        return result
    flow = flow_through(machine, given)
    return v.Unknown(last, True, replace(flow, reduction=reduction_of(v.Const(how))))
