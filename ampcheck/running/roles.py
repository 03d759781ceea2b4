"""Roles: which values are scalers, optimizers, models, schedulers, and which gradients they own.

Definitions come first (constructors, annotations, wrappers); names and the methods used on a value come last, and
then the role is marked as not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.library import torch as lib
from ampcheck.running import iterators
from ampcheck.running import values as v
from ampcheck.running.describing import text_of
from ampcheck.running.machine import Machine
from ampcheck.running.naming import names_optimizer, names_scaler, names_scheduler
from ampcheck.trace import Role

__all__ = [
    "as_model",
    "as_optimizer",
    "as_scaler",
    "as_scheduler",
    "build_average",
    "build_optimizer",
    "build_scaler",
    "build_scheduler",
    "freeze",
    "is_frozen",
    "overlaps",
    "owners_of",
    "parameters_of",
    "reducing",
    "role_of",
    "wrap",
    "wrapped",
]


def build_scaler(
    machine: Machine, name: str, keywords: dict[str, v.Value], node: p.Node, fallback: str
) -> v.Value:
    """A GradScaler that is constructed here."""
    enabled = keywords.get("enabled", v.TRUE)
    role = Role(machine.hint or fallback, "scaler", machine.hint or fallback, True, name, site=node.site)
    scaler = v.Scaler(machine.add_role(role), enabled)
    detail = f"enabled={text_of(enabled)}" if "enabled" in keywords else ""
    machine.emit(ev.Build(site=node.site, kind="scaler", role=scaler.id, detail=detail))
    return scaler


def build_optimizer(
    machine: Machine, cls: str, given: v.Value | None, node: p.Node, known: bool = True
) -> v.Value:
    """An optimizer that is constructed here over the given parameters; not `known` when its class is a guess."""
    parameters = parameters_of(machine, given) if given is not None else None
    name = machine.hint or cls.rsplit(".", 1)[-1]
    models = parameters.models if parameters else ()
    partial = bool(parameters and parameters.partial)
    role = Role(name, "optimizer", name, known, cls, models, partial, node.site)
    optimizer = v.Optimizer(machine.add_role(role), parameters, known)
    iterators.consume(machine, given, node.site)
    machine.emit(ev.Build(site=node.site, kind="optimizer", role=optimizer.id, detail=cls))
    return optimizer


def build_scheduler(
    machine: Machine, cls: str, args: Iterable[v.Value], node: p.Node, known: bool = False
) -> v.Value:
    """A learning-rate scheduler that is constructed here.

    `known`: what its `step` does can be told.  Classes of projects have their own ideas, such as to set the rate of the
    optimizer step that follows.
    """
    args = tuple(args)
    found = tuple(a.id for a in map(role_of, args) if isinstance(a, v.Optimizer))
    counts: Literal["updates", "batches", "epochs", "metric", "unknown"] = lib.SCHEDULERS.get(cls, "unknown")
    if any(_is_multiple_of_window(machine, a) for a in args):
        counts = "batches"
    name = machine.hint or cls
    role = Role(name, "scheduler", name, known, cls, site=node.site)
    scheduler = v.Scheduler(machine.add_role(role), found, counts)
    machine.emit(ev.Build(site=node.site, kind="scheduler", role=scheduler.id, detail=cls))
    return scheduler


def _is_multiple_of_window(machine: Machine, value: v.Value) -> bool:
    """``max_steps * accumulation_steps``: a schedule of this length is meant to advance on every micro-batch."""
    if isinstance(value, v.Number):
        return value.unit.window > 0
    factors = value.text.split(" * ") if isinstance(value, v.Unknown) else []
    return len(factors) > 1 and any(f in machine.setting.windows or machine.names_window(f) for f in factors)


def build_average(machine: Machine, cls: str, node: p.Node) -> v.Value:
    """A moving average of weights that is constructed here."""
    name = machine.hint or cls
    average = v.Average(machine.add_role(Role(name, "average", name, True, cls, site=node.site)))
    machine.emit(ev.Build(site=node.site, kind="average", role=average.id, detail=cls))
    return average


def wrap(machine: Machine, inner: v.Value, wrapper: str, node: p.Node, detail: str = "") -> v.Value:
    """A model inside DDP or FSDP; it keeps the inner model's name, since it holds the same parameters.

    `detail` says more of how it is wrapped (see `events.Build`).
    """
    model = as_model(machine, inner)
    if model is None:
        return v.Unknown(f"{wrapper}({text_of(inner)})")
    wrapped = v.Model(model.id, wrapper, instance=model.instance, returns=model.returns)
    if wrapper:
        old = machine.roles.get(model.id)
        machine.roles[model.id] = Role(model.id, "model", old.text if old else model.id, True, wrapper)
        built = ev.Build(site=node.site, kind="wrapper", role=model.id, detail=detail or wrapper)
        machine.emit(built)
    if wrapper == "fsdp2":
        model.wrapper = wrapper
    return wrapped


def reducing(machine: Machine, given: v.Value, cls: str) -> v.Value:
    """An optimizer inside one that reduces gradients over ranks; it keeps the inner one's name."""
    optimizer = as_optimizer(machine, given, forced=True)
    if optimizer is None:
        return v.Foreign(cls)
    machine.touch()
    machine.roles[optimizer.id] = replace(machine.roles[optimizer.id], detail=cls)
    return optimizer


def role_of(value: v.Value) -> v.Value:
    """What a value turned out to be; an object of a library's wrapper class stands for what it wraps."""
    if isinstance(value, v.Unknown) and value.role is not None:
        value = value.role
    while isinstance(value, v.Instance):
        inner = wrapped(value)
        if inner is None:
            break
        value = inner.role if isinstance(inner, v.Unknown) and inner.role is not None else inner
    return value


def wrapped(instance: v.Instance) -> v.Value | None:
    """What an object of a library's wrapper class wraps: its class names the attribute in ``__wraps__``."""
    classes = [instance.cls]
    while classes:
        cls = classes.pop(0)
        name = cls.members.get("__wraps__")
        if isinstance(name, v.Const):
            return instance.attributes.get(name.value)
        classes += [base for base in cls.bases if isinstance(base, v.Class)]
    return None


def as_model(machine: Machine, value: v.Value) -> v.Model | None:
    """The model that a value is, promoted if it is unknown so far."""
    value = role_of(value)
    match value:
        case v.Model():
            return value
        case v.Method(receiver=v.Model() as owner, name=part):
            return v.Model(f"{owner.id}.{part}", owner.wrapper, owner.bypassed)
        case v.Instance():
            name = machine.name_object(value.id or value.cls.node.name, value)
            role = machine.roles.get(name)
            if role is None or role.kind != "model":
                machine.add_role(Role(name, "model", name))
            in_place = "fsdp2" if role is not None and role.detail == "fsdp2" else ""
            cls = value.cls.node
            returns = machine.program.returns(cls.site.path, cls.name)
            return v.Model(name, in_place, instance=value, returns=returns)
        case v.Unknown():
            machine.touch()
            name = machine.add_role(Role(value.text, "model", value.text, False))
            value.role = v.Model(name, returns=value.returns)
            if name not in machine.setting.models:
                machine.setting.models |= {name}
                machine.setting.grown = machine.setting.grown or machine.micro >= 0
            return value.role
        case _:
            return None


def as_optimizer(machine: Machine, value: v.Value, forced: bool = False) -> v.Optimizer | None:
    """The optimizer that a value is: by its definition, else by its name (`forced`: by how it is used)."""
    role = role_of(value)
    if isinstance(role, v.Optimizer):
        return role
    if forced and isinstance(value, v.Unknown) and isinstance(role, v.Model) and role.id == value.text:
        # Only its `zero_grad` had been seen before: that could have been a model's.
        machine.roles.pop(role.id, None)
        value.role, role = None, value
    if not isinstance(role, v.Unknown) or not (forced or names_optimizer(role.text)):
        return None
    machine.touch()
    found = Role(role.text, "optimizer", role.text, False, given=role.argument)
    name = machine.add_role(found)
    optimizer = v.Optimizer(name, None, False)
    role.role = machine.adopt(optimizer)
    if all(o.id != name for o in machine.setting.optimizers):
        machine.setting.optimizers += (machine.roles[name],)
        # Backwards before this moment did not know of it: the root is run again.
        machine.setting.grown = machine.setting.grown or machine.micro >= 0
    return optimizer


def as_scaler(machine: Machine, value: v.Value, forced: bool = False) -> v.Scaler | None:
    """The loss scaler that a value is: by its definition, else by its name (`forced`: by how it is used)."""
    role = role_of(value)
    if isinstance(role, v.Scaler):
        return role
    if not isinstance(role, v.Unknown) or not (forced or names_scaler(role.text)):
        return None
    machine.touch()
    name = machine.add_role(Role(role.text, "scaler", role.text, True))
    role.role = v.Scaler(name, v.Atom(role.text, False))
    return role.role


def as_scheduler(machine: Machine, value: v.Value) -> v.Scheduler | None:
    """The scheduler that a value is: by its definition, else by its name."""
    role = role_of(value)
    if isinstance(role, v.Scheduler):
        return role
    if not isinstance(role, v.Unknown) or not names_scheduler(role.text):
        return None
    machine.touch()
    scheduler = v.Scheduler(machine.add_role(Role(role.text, "scheduler", role.text, False)))
    role.role = machine.adopt(scheduler)
    return scheduler


def parameters_of(machine: Machine, value: v.Value) -> v.Parameters | None:
    """The parameters that an argument names: ``model.parameters()``, lists of groups, chains; None when unknown."""
    value = role_of(value)
    match value:
        case v.Parameters():
            return iterators.kept(value)
        case v.Gradient(parameters=parameters):
            return parameters
        case v.Model(id=name):
            return v.Parameters((name,), text=name)
        case v.Optimizer(parameters=parameters):
            return parameters
        case v.DictValue(items=items):
            return parameters_of(machine, items["params"]) if "params" in items else None
        case v.Seq(items=items) if items:
            parts = [parameters_of(machine, item) for item in items]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            models = tuple(dict.fromkeys(m for part in known for m in part.models))
            each = len(known) == 1 and known[0].each
            return v.Parameters(models, any(part.partial for part in known), each, text_of(value))
        case v.Method(receiver=v.Model(id=owner), name=part):
            return v.Parameters((f"{owner}.{part}",), text=f"{owner}.{part}")
        case v.Items(inner=inner) if inner:
            return parameters_of(machine, v.Seq("list", list(inner)))
        case _:
            return None


def overlaps(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two sets of models share parameters: the same model, or one inside the other."""
    for a in one:
        for b in other:
            if _within(a, b) or _within(b, a):
                return True
    return False


def owners_of(machine: Machine, parameters: v.Parameters | None) -> tuple[tuple[str, ...], bool]:
    """The owners of the gradients of some parameters, and whether all of each owner's parameters are among them.

    Unknown parameters are those of the only optimizer, where there is only one.
    """
    optimizers = machine.optimizers()
    if parameters is None or not parameters.models:
        if len(optimizers) == 1:
            return (optimizers[0].id,), True
        return (), False
    owners, whole = [], True
    unknown = []
    for optimizer in optimizers:
        if not optimizer.models:
            unknown.append(optimizer.id)
        elif overlaps(optimizer.models, parameters.models):
            owners.append(optimizer.id)
            covered = all(any(_within(m, n) for n in parameters.models) for m in optimizer.models)
            whole = whole and covered and not (parameters.partial and not optimizer.partial)
    if not owners and len(unknown) == 1 and len(optimizers) == 1:
        return tuple(unknown), not parameters.partial
    if not owners and unknown:
        return (), False
    # Parameters that no optimizer holds keep gradients of their own.
    held = {m for o in optimizers for m in o.models}
    free = [f"free:{m}" for m in parameters.models if not overlaps([m], held)] if held and not unknown else []
    return (*owners, *free), whole


def _within(inner: str, outer: str) -> bool:
    outer = outer.removesuffix(".*")
    return inner == outer or inner.startswith(outer + ".")


def freeze(machine: Machine, models: Iterable[str], frozen: bool) -> None:
    """Note that models do not (or again do) take gradients."""
    machine.touch()
    for model in models:
        if frozen:
            machine.frozen.add(model)
        else:
            machine.frozen -= {other for other in machine.frozen if overlaps((model,), (other,))}


def is_frozen(machine: Machine, models: Iterable[str]) -> bool:
    """Whether none of some models takes gradients: one that is frozen in part still trains the rest."""
    return all(any(_within(model, frozen) for frozen in machine.frozen) for model in models)
