"""What library models can ask for that is no Python: the names of ``ampcheck.models`` in their files.

kind_of(x)
    "optimizer", "scheduler", "scaler", "model", "loader" or "unknown", by role, else by name; "prepared" for what a
    library's wrapper class wraps already.
shape_of(x)
    "sequence", "dict", "text", "number", "none", "function" or "", always decided.
instance_of(x, cls)
    whether x is an object of a class that derives from cls; false of what nobody knows.
engine_call(library, call, *objects)
    the event `EngineCall`: rules about an engine's own protocol read it.
own(engine, *objects)
    marks the roles of objects as owned by an engine (`Role.engine`).
unscale_latest(scaler, optimizer)
    divides by the scale those gradients that carry it.
unknown(text)
    a value that nobody knows, spelled so in conditions.
configured(name), declared(package)
    what the project's configuration files say of a setting; which version of a package it requires.
unknown_loader(text)
    something that yields an epoch's batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import Unit
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.arithmetic import coerce
from ampcheck.running.describing import text_of
from ampcheck.running.emitting import declare
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_loader, names_optimizer, names_scaler, names_scheduler
from ampcheck.running.roles import as_optimizer, as_scaler, role_of, wrapped

__all__ = ["call_intrinsic"]

PREFIX = "ampcheck.models."

KINDS: dict[type, str] = {
    v.Optimizer: "optimizer",
    v.Scheduler: "scheduler",
    v.Scaler: "scaler",
    v.Model: "model",
    v.Items: "loader",
}


def call_intrinsic(machine: Machine, name: str, given: Arguments, node: p.Expr) -> v.Value | None:
    """The result of an intrinsic; None for any other name."""
    if not name.startswith(PREFIX):
        return None
    intrinsic = INTRINSICS.get(name.removeprefix(PREFIX))
    return intrinsic(machine, given, node) if intrinsic is not None else None


def _literal(value: v.Value | None) -> str:
    return value.value if isinstance(value, v.Const) and isinstance(value.value, str) else ""


def _kind_of(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    value = given.args[0]
    if isinstance(value, v.Unknown) and value.role is not None:
        value = value.role
    if isinstance(value, v.Instance) and wrapped(value) is not None:
        return v.Const("prepared")
    kind = KINDS.get(type(value), "unknown")
    if isinstance(value, v.Unknown):
        text = value.text
        if names_loader(text):
            kind = "loader"
        elif names_scheduler(text):
            kind = "scheduler"
        elif names_optimizer(text):
            kind = "optimizer"
        elif names_scaler(text):
            kind = "scaler"
        elif text in machine.setting.models:
            kind = "model"
    elif isinstance(value, v.Instance):
        kind = "model"
    return v.Const(kind)


SHAPES: dict[type, str] = {
    v.Seq: "sequence",
    v.DictValue: "dict",
    v.Number: "number",
    v.Function: "function",
    v.Bound: "function",
    v.Partial: "function",
}


def _shape_of(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    value = given.args[0]
    if isinstance(value, v.Const):
        return v.Const("none" if value.value is None else "text" if isinstance(value.value, str) else "")
    if isinstance(value, v.Unknown) and not value.varying:
        value = coerce(machine, value)  # a window's length is a number from the second run on
    return v.Const(SHAPES.get(type(value), ""))


def _instance_of(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    value, wanted = role_of(given.args[0]), given.args[1]
    if isinstance(value, v.Model) and value.instance is not None:
        value = value.instance
    pending = [value.cls] if isinstance(value, v.Instance) else []
    while pending:
        cls = pending.pop()
        if isinstance(wanted, v.Class) and cls.node is wanted.node:
            return v.TRUE
        pending += [base for base in cls.bases if isinstance(base, v.Class)]
    return v.FALSE


def _unscale_latest(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    scaler, optimizer = as_scaler(machine, given.args[0]), as_optimizer(machine, given.args[1])
    if scaler is not None and optimizer is not None:
        machine.emit(
            ev.Edit(
                site=node.site,
                effect="multiply",
                owners=(optimizer.id,),
                factor=Unit(((scaler.id, -1),)),
                latest=True,
            )
        )
    return v.NONE


def _ids(values: list[v.Value]) -> tuple[str, ...]:
    """The identifiers of the roles among some values."""
    found: list[str] = []
    for value in values:
        role = role_of(value)
        if isinstance(role, (v.Optimizer, v.Scheduler, v.Scaler, v.Model)):
            found.append(role.id)
        elif isinstance(role, v.Seq):
            found += _ids(role.items)
    return tuple(found)


def _engine_call(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    library, call = map(_literal, given.args[:2])
    roles = _ids(given.args[2:])
    record = machine.emit(ev.EngineCall(site=node.site, library=library, call=call, roles=roles))
    if call in ("step", "counted step"):
        declare(machine, "step", roles, record.index)
    return v.NONE


def _own(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    machine.touch()
    for name in _ids(given.args[1:]):
        if name in machine.roles:
            machine.roles[name] = replace(machine.roles[name], engine=_literal(given.args[0]))
    return v.NONE


def _unknown(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    return v.Unknown(_literal(given.args[0]))


def _unknown_loader(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    text = _literal(given.args[0]) or text_of(given.args[0])
    return v.Items("data", text)


INTRINSICS: dict[str, Callable[[Machine, Arguments, p.Expr], v.Value]] = {
    "kind_of": _kind_of,
    "shape_of": _shape_of,
    "instance_of": _instance_of,
    "unscale_latest": _unscale_latest,
    "engine_call": _engine_call,
    "own": _own,
    "unknown": _unknown,
    "configured": _unknown,
    "declared": _unknown,
    "unknown_loader": _unknown_loader,
}
