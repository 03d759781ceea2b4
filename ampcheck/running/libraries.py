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
from ampcheck.running.describing import is_varying, text_of
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
    if name in lib.REDUCING_OPTIMIZERS and "backward_passes_per_step" not in given.keywords:
        return roles.reducing(machine, given.get(0, "optimizer") or v.NONE, name)
    if name in lib.REDUCTIONS:
        emitting.reduce(machine, roles.as_optimizer(machine, given.get(0, "optimizer") or v.NONE), node)
        return v.NONE
    if name.startswith(lib.ENGINES) and name.split(".")[0] not in machine.program.packages:
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
        return _wrap(machine, name, last, given, node)
    if last in lib.AUTOCASTS:
        return _autocast(machine, name, given)
    if last in lib.OPTIMIZERS and given.all:
        detail = f"torch.optim.{last}" if lib.is_torch(name) else last
        return roles.build_optimizer(machine, detail, given.get(0, "params"), node)
    if last in lib.SCHEDULERS or (last.endswith(("LR", "Scheduler")) and "lr_scheduler" in name):
        is_known = lib.is_torch(name) or name.startswith(lib.SCHEDULER_PACKAGES)
        return roles.build_scheduler(machine, last, given.all, node, is_known)
    if AVERAGES.search(last):
        return roles.build_average(machine, last, node)
    if last in lib.LOSSES:
        return _loss(machine, last, given)
    if lib.is_torch(name) and last == "mean" and given.args and isinstance(given.args[0], v.Unknown):
        averaged = call_method(machine, given.args[0], last, Arguments(given.args[1:], given.keywords), node)
        if averaged is not None:
            return averaged
    result = call_unseen(machine, name, given, node, callee)
    returns = machine.program.returns(node.site.path, name)
    return replace(result, returns=returns) if isinstance(result, v.Unknown) and returns.tells else result


def _wrap(machine: Machine, name: str, last: str, given: Arguments, node: p.Expr) -> v.Value:
    module = given.get(0, "module") or v.NONE
    wrapper = "" if name.startswith("apex") else lib.WRAPPERS[last]
    if last == "fully_shard":
        wrapper = "fsdp2" if name.startswith(lib.FSDP2) else wrapper
        if is_varying(module) or isinstance(module, v.Seq):
            return module  # one block after the other: the whole follows
        return roles.wrap(machine, module, wrapper, node)
    if wrapper != "fsdp" or not name.startswith(lib.FSDP1):
        return roles.wrap(machine, module, wrapper, node)
    unseen = isinstance(node, p.Call) and any(a.star == "**" for a in node.arguments)
    strategy, original = given.get(2, "sharding_strategy"), given.keywords.get("use_orig_params")
    if strategy is None or isinstance(strategy, v.Lib):
        sure = strategy is not None or not unseen
        replicated = isinstance(strategy, v.Lib) and strategy.name.endswith("NO_SHARD")
        wrapper = "fsdp1 NO_SHARD" if replicated else "fsdp1" if sure else "fsdp1?"
    else:
        wrapper = "fsdp1?"
    if isinstance(original, v.Truth):
        detail = f"{wrapper} use_orig_params" if original.value else wrapper
    else:
        detail = f"{wrapper} use_orig_params?" if original is not None or unseen else wrapper
    return roles.wrap(machine, module, wrapper, node, detail)


def _clip(machine: Machine, last: str, given: Arguments, node: p.Expr) -> v.Value:
    target = given.get(0, "parameters")
    bound = given.get(1, "max_norm", "clip_value")
    strict = given.get(3, "error_if_nonfinite")
    # Inside a try with a handler the exception may well be what the code waits for.
    raises = isinstance(strict, v.Truth) and strict.value and not machine.sheltered
    style = lib.CLIPS[last]
    if last == "dispatch_clip_grad":
        mode, bound, raises = given.get(2, "mode"), given.get(1, "value"), False
        style = "value" if isinstance(mode, v.Const) and mode.value == "value" else "norm"
    elif last == "adaptive_clip_grad":
        bound = None  # a factor: the bound is that part of each weight's own norm
    return emitting.clip(machine, style, target, bound, node, strict=raises)


def _autocast(machine: Machine, name: str, given: Arguments) -> v.Value:
    """``torch.autocast(device_type, dtype, enabled)``, or ``torch.cuda.amp.autocast(enabled, dtype)``."""
    if ".cuda.amp" in name or ".cpu.amp" in name:
        device: str = "cuda" if ".cuda.amp" in name else "cpu"
        enabled, dtype = given.get(0, "enabled"), given.get(1, "dtype")
    else:
        kind = given.get(0, "device_type")
        device = kind.value.split(":")[0] if isinstance(kind, v.Const) and isinstance(kind.value, str) else ""
        dtype, enabled = given.get(1, "dtype"), given.get(2, "enabled")
    if isinstance(dtype, v.Const) and dtype.value is None:
        dtype = None
    if isinstance(enabled, v.Truth):
        enabled = None if enabled.value else v.FALSE
    cast = lib.autocast_dtype(device, None if dtype is None else text_of(dtype))
    return v.Context("autocast", dtype=cast, device=device, enabled=enabled)


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
