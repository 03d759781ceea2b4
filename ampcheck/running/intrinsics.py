"""What library models can ask for that is no Python: the names of ``ampcheck.models`` in their files.

kind_of(x)
    "optimizer", "scheduler", "scaler", "model", "loader" or "sequence", by role, else by name; "prepared" for what a
    library's wrapper class wraps already, "unknown" for what may be anything, "other" for what is none of these.
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
configured(name)
    what the project's configuration files say of a setting, unknown where they say nothing.
doubtful(text)
    a test that neither the code nor whoever starts it settles (which version of a library runs it): nothing certain
    rests on how it comes out.
quantity(name)
    a number that is none of the known factors and no window's length; what is divided by it is normalised by it.
every_optimizer(list)
    the optimizers of the list, each once, and those that hold gradients and are not in it: who clips with an engine has
    prepared them somewhere.
unknown_loader(text)
    something that yields an epoch's batches.
at_last_batch()
    whether the innermost loop over data is at its last item.
accepts(function, name)
    whether a function has a parameter of this name, or takes any; true of what cannot be seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import Unit
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.arithmetic import coerce
from ampcheck.running.classes import class_kind
from ampcheck.running.describing import text_of
from ampcheck.running.emitting import declare
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_loader, names_optimizer, names_scaler, names_scheduler
from ampcheck.running.roles import as_optimizer, as_scaler, role_of, wrapped

__all__ = ["call_intrinsic"]

PREFIX = "ampcheck.models."

# Names that are none of a model, however much unknown may be one.
NO_MODEL = re.compile(
    r"data|load|iter|batch|sampler|(^|_)(dl|ds|set)$|valid|test|eval|state|config|cfg|args", re.IGNORECASE
)

KINDS: dict[type, str] = {
    v.Optimizer: "optimizer",
    v.Scheduler: "scheduler",
    v.Scaler: "scaler",
    v.Model: "model",
    v.Items: "loader",
    v.Seq: "sequence",
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
    kind = KINDS.get(type(value), "other")
    if isinstance(value, v.Unknown):
        kind = "unknown"
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
        elif NO_MODEL.search(text):
            kind = "other"
    elif isinstance(value, v.Instance):
        kind = "model" if class_kind(value.cls) == "module" else "unknown"
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
    engine = machine.frame.find("self")
    birth = machine.births.get(engine, "") if isinstance(engine, v.Instance) else ""
    if call == "backward" and birth and birth not in machine.setting.engaged:
        machine.setting.engaged.add(birth)
        machine.setting.grown = True
    if call == "accumulate":
        _count_entries(machine, given.args[2:])
    roles = _ids(given.args[2:])
    record = machine.emit(ev.EngineCall(site=node.site, library=library, call=call, roles=roles))
    if call in ("step", "counted step"):
        declare(machine, "step", roles, record.index)
    return v.NONE


def _count_entries(machine: Machine, objects: list[v.Value]) -> None:
    """A window that is counted twice an iteration comes out in halves: three micro-batches would not show it."""
    engine = next((o for o in objects if isinstance(o, v.Instance)), None)
    path = tuple(machine.path)
    if engine is None or not path:
        return
    if machine.entries.get(engine) == path and machine.setting.double():
        machine.setting.grown = True
    machine.entries[engine] = path


def _own(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    machine.touch()
    for name in _ids(given.args[1:]):
        if name in machine.roles:
            machine.roles[name] = replace(machine.roles[name], engine=_literal(given.args[0]))
    return v.NONE


def _unknown(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    return v.Unknown(_literal(given.args[0]))


def _every_optimizer(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    listed = given.args[0].items if isinstance(given.args[0], v.Seq) else []
    known: dict[str, v.Value] = {}
    for one in listed:
        role = role_of(one)
        known.setdefault(role.id if isinstance(role, v.Optimizer) else text_of(role), one)
    holding = {o.id for o in machine.optimizers() if machine.state.buffer(o.id).contributions}
    unseen = [o for o in machine.optimizers() if o.id in holding - known.keys()]
    return v.Seq("list", [*known.values(), *(v.Optimizer(o.id, None, o.known) for o in unseen)])


def _configured(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    name = _literal(given.args[0])
    number = machine.program.settings.get(name)
    return v.Unknown(name) if number is None else v.Number(number, label=name)


def _unknown_loader(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    text = _literal(given.args[0]) or text_of(given.args[0])
    return v.Items("data", text)


def _doubtful(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    machine.choices.doubtful.add(_literal(given.args[0]))
    return v.Atom(_literal(given.args[0]), False, doubtful=True)


def _quantity(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    name = _literal(given.args[0])
    return v.Number(1, Unit(other=frozenset({name})), symbol=name)


def _at_last_batch(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    return v.Truth(bool(machine.at_last and machine.at_last[-1]))


def _accepts(machine: Machine, given: Arguments, node: p.Expr) -> v.Value:
    function, name = given.args[0], _literal(given.args[1])
    while isinstance(function, (v.Bound, v.Partial)):
        function = function.function if isinstance(function, v.Bound) else function.call
    if not isinstance(function, v.Function):
        return v.TRUE
    return v.Truth(any(q.name == name or q.star == "**" for q in function.node.parameters))


INTRINSICS: dict[str, Callable[[Machine, Arguments, p.Expr], v.Value]] = {
    "kind_of": _kind_of,
    "shape_of": _shape_of,
    "instance_of": _instance_of,
    "unscale_latest": _unscale_latest,
    "engine_call": _engine_call,
    "own": _own,
    "unknown": _unknown,
    "configured": _configured,
    "every_optimizer": _every_optimizer,
    "doubtful": _doubtful,
    "quantity": _quantity,
    "unknown_loader": _unknown_loader,
    "at_last_batch": _at_last_batch,
    "accepts": _accepts,
}
