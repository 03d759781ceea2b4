"""Attributes and items: of objects of the project, of models, of parameters, of unknown values."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.annotations import engine_by_name, is_none
from ampcheck.running.arithmetic import coerce
from ampcheck.running.classes import class_kind
from ampcheck.running.comparing import compare
from ampcheck.running.describing import flow_of, is_varying, text_of
from ampcheck.running.importing import imported, member_of
from ampcheck.running.iterators import renewed
from ampcheck.running.machine import Frame, Infeasible, Machine
from ampcheck.running.naming import names_optimizer, names_scaler, names_scheduler, names_settings
from ampcheck.running.role_methods import SAME
from ampcheck.running.roles import as_model, wrapped
from ampcheck.running.truth import truth

__all__ = ["attribute", "forget_unset", "item", "store_attribute"]

AS_MODULE = frozenset(
    {"parameters", "named_parameters", "zero_grad", "no_sync", "train", "eval", "half", "requires_grad_"}
)


def attribute(machine: Machine, value: v.Value, name: str) -> v.Value:
    """``value.name``."""
    if type(value) is v.Unknown and value.role is None:  # most of all values
        engine = engine_by_name(machine, value, name)
        return _of_unknown(value, name) if engine is None else attribute(machine, engine, name)
    match value:
        case v.Lib(name=dotted):
            return imported(machine, "", f"{dotted}.{name}")
        case v.Namespace():
            return member_of(machine, value, name)
        case v.Instance():
            return _of_instance(machine, value, name)
        case v.Class():
            found = _member(value, name)
            if isinstance(found, v.Function) and "classmethod" in _decorators(machine, found):
                return v.Bound(found, value)
            return found if found is not None else v.Method(value, name)
        case v.Parameters() if name == "grad":
            return v.Gradient(value)
        case v.Parameters() if name in ("data", "requires_grad", "main_grad"):
            return value if name == "data" else v.Gradient(value) if name == "main_grad" else v.TRUE
        case v.Model(id=parameter) if name in ("grad", "main_grad"):  # ``model.head.weight.grad``
            return v.Gradient(v.Parameters((parameter,), text=parameter))
        case v.Gradient() | v.Derivative() if name in ("data", "T"):
            return value
        case v.Model(bypassed=False, wrapper=wrapper) if name == "module" and wrapper:
            return v.Model(value.id, wrapper, True, value.instance, value.returns)
        case v.Model() if name in ("module", "_orig_mod", "model"):
            return value if name != "model" else _submodel(value, name)
        case v.Model(instance=v.Instance() as instance) if name in instance.attributes:
            return _through(value, instance.attributes[name], name)
        case v.Optimizer() if name == "param_groups":
            return v.Seq(
                "list", [v.DictValue({"params": value.parameters or v.Parameters((), text=value.id)})]
            )
        case (
            v.Scaler()
            | v.Optimizer()
            | v.Scheduler()
            | v.Average()
            | v.Context()
            | v.Model()
            | v.Parameters()
        ):
            return v.Method(value, name)
        case v.Unknown(role=role) if role is not None:
            return attribute(machine, role, name)
        case v.Method(receiver=v.Model() as model, name=part):
            return attribute(machine, _submodel(model, part), name)  # ``model.head.parameters()``
        case v.Foreign(text=text):
            return v.Foreign(f"{text}.{name}")
        case v.Method(receiver=receiver, name="super") if isinstance(receiver, v.Instance):
            return _of_super(machine, receiver, name)
        case _:
            return v.Method(value, name)


def _through(model: v.Model, value: v.Value, name: str) -> v.Value:
    """A submodule seen through its model: ``model.encoder``."""
    if isinstance(value, v.Instance) and p.Program.is_model(value.cls.node.site.path):
        return value  # a library's engine that a module keeps is no part of it
    if isinstance(value, (v.Unknown, v.Instance)) and not (isinstance(value, v.Unknown) and value.flow):
        return _submodel(model, name)
    return value


def _submodel(model: v.Model, name: str) -> v.Value:
    return v.Model(f"{model.id}.{name}", model.wrapper, bool(model.wrapper) or model.bypassed)


def _of_unknown(value: v.Unknown, name: str) -> v.Value:
    known = value.attributes.get(name)
    if known is not None:
        return known
    if name == "grad" and not value.varying:
        return v.Gradient(v.Parameters((), text=value.text))
    flow = value.flow
    if flow is not None and name in ("loss", "total_loss"):
        # The convention of model outputs: their own loss is an average.
        flow = replace(flow, reduction="mean" if flow.reduction == "unknown" else flow.reduction)
    text = f"{value.text}.{name}"
    result = v.Unknown(text, value.varying, flow, argument=value.argument, base=value, member=name)
    value.attributes[name] = result
    return result


# --- objects of the project -------------------------------------------------------------------------------------


def _member(cls: v.Class, name: str) -> v.Value | None:
    """A method or class attribute, own or inherited."""
    if name in cls.members:
        return cls.members[name]
    for base in cls.bases:
        if isinstance(base, v.Class):
            found = _member(base, name)
            if found is not None:
                return found
    return None


def _of_instance(machine: Machine, instance: v.Instance, name: str) -> v.Value:
    if name in instance.attributes:
        return _part(machine, instance, name, instance.attributes[name])
    member = _member(instance.cls, name)
    if isinstance(member, v.Function):
        return _bound(machine, instance, member)
    if member is not None:
        return member
    inner = wrapped(instance)
    if inner is not None:
        return attribute(machine, inner, name)
    from_body = _assigned_elsewhere(machine, instance, name)
    if from_body is not None:
        return from_body
    if name == "grad":
        return v.Gradient(v.Parameters((instance.id,)))
    if name in AS_MODULE or (name in SAME and class_kind(instance.cls) == "module"):
        model = as_model(machine, instance)
        return v.Method(model or instance, name)
    prefix = "self" if not instance.id else instance.id
    value = v.Unknown(f"{prefix}.{name}", base=instance, member=name)
    instance.attributes[name] = value
    return value


def _part(machine: Machine, instance: v.Instance, name: str, value: v.Value) -> v.Value:
    """A module's own submodule goes by the module's name: what one of them owns, the other does."""
    is_object = (
        isinstance(value, v.Unknown) and value.role is None and value.flow is None and not value.varying
    )
    is_part = isinstance(value, v.Instance) or (is_object and value.text == f"self.{name}")  # type: ignore[attr-defined]
    if isinstance(value, v.Instance) and p.Program.is_model(value.cls.node.site.path):
        return value
    if not is_part or not instance.id or class_kind(instance.cls) != "module":
        return value
    if names_optimizer(name) or names_scaler(name) or names_scheduler(name):
        return value
    inner = value if isinstance(value, v.Instance) else None
    return v.Model(f"{instance.id}.{name}", instance=inner)


def _decorators(machine: Machine, member: v.Function) -> set[str]:
    decorators = member.node.decorators if isinstance(member.node, p.FunctionDef) else ()
    return {machine.text(d).rsplit(".", 1)[-1] for d in decorators}


def _bound(machine: Machine, instance: v.Instance, member: v.Function) -> v.Value:
    names = _decorators(machine, member)
    if "staticmethod" in names:
        return member
    if "classmethod" in names:
        return v.Bound(member, instance.cls)
    bound = v.Bound(member, instance)
    if names & {"property", "cached_property"}:
        return machine.call(
            bound, [], {}, member.node if isinstance(member.node, p.Lambda) else p.Opaque(member.node.site)
        )
    return bound


def _of_super(machine: Machine, instance: v.Instance, name: str) -> v.Value:
    owner = machine.frame.owner or instance.cls
    for base in owner.bases:
        if isinstance(base, v.Class):
            found = _member(base, name)
            if isinstance(found, v.Function):
                return v.Bound(found, instance)
    return v.Unknown(f"super().{name}")


def _assigned_elsewhere(machine: Machine, instance: v.Instance, name: str) -> v.Value | None:
    """An attribute that some method of the class sets which this run has not called (``setup()``, ``build()``).

    Only definitions that build a role are taken over: they tell what the attribute is.
    """
    key = (id(instance), name)
    if key in machine.looking:
        return None
    machine.looking.add(key)
    try:
        assignments = _assignments(instance.cls, name)
        for method, statement in assignments:
            if statement.value is None or not _builds_role(statement.value):
                continue
            if is_none(statement.value) and not all(is_none(other.value) for _, other in assignments):
                continue  # until some other method has been called
            machine.touch()
            frame, hint = machine.frame, machine.hint
            machine.frame = Frame({"self": instance}, method.frame, method.owner)
            machine.hint = f"{instance.id or 'self'}.{name}"
            for parameter in method.node.parameters[1:]:
                machine.frame.names[parameter.name] = v.Unknown(parameter.name)
            try:
                value = machine.evaluate(statement.value)
            finally:
                machine.frame, machine.hint = frame, hint
            if method.node.name != "__init__":  # type: ignore[union-attr]
                value = renewed(value)
            if (
                isinstance(value, v.Unknown)
                and value.role is None
                and value.flow is None
                and "(" in value.text
            ):
                value = replace(value, text=f"{instance.id or 'self'}.{name}")
            instance.attributes[name] = value
            return value
    finally:
        machine.looking.discard(key)
    return None


def _assignments(cls: v.Class, name: str) -> list[tuple[v.Function, p.Assign]]:
    """The assignments to an attribute in the methods of a class and of its bases."""
    found = []
    for member in cls.members.values():
        if isinstance(member, v.Function) and isinstance(member.node, p.FunctionDef):
            found += [(member, statement) for statement in _own_assignments(member.node).get(name, ())]
    for base in cls.bases:
        if isinstance(base, v.Class):
            found += _assignments(base, name)
    return found


def _own_assignments(method: p.FunctionDef) -> dict[str, list[p.Assign]]:
    """What a method assigns to attributes of ``self``."""
    return _own(method.body)


@lru_cache(maxsize=512)
def _own(body: tuple[p.Stmt, ...]) -> dict[str, list[p.Assign]]:
    found: dict[str, list[p.Assign]] = {}
    for node in p.walk(*body):
        if isinstance(node, p.Assign):
            for target in node.targets:
                if isinstance(target, p.Attribute) and _is_self(target):
                    found.setdefault(target.attr, []).append(node)
    return found


def _is_self(target: p.Attribute) -> bool:
    return isinstance(target.value, p.Name) and target.value.id == "self"


def forget_unset(instance: v.Instance, root: p.FunctionDef) -> None:
    """Leave open what a constructor sets to None for another method to fill in before this root is called."""
    for name, value in list(instance.attributes.items()):
        if isinstance(value, v.Const) and value.value is None:
            later = (
                statement
                for method, statement in _assignments(instance.cls, name)
                if isinstance(method.node, p.FunctionDef)
                and method.node is not root
                and method.node.name != "__init__"
            )
            if any(not is_none(statement.value) for statement in later):
                del instance.attributes[name]


def _builds_role(value: p.Expr) -> bool:
    return any(isinstance(node, (p.Call, p.Constant)) for node in p.walk(value))


def store_attribute(machine: Machine, target: v.Value, name: str, value: v.Value) -> None:
    """``target.name = value``, for targets that are not roles."""
    match target:
        case v.Instance(attributes=attributes) | v.Unknown(attributes=attributes):
            machine.store(attributes, name, value)
        case v.Class(members=members):
            machine.store(members, name, value)
        case v.Model(instance=v.Instance() as instance):
            machine.store(instance.attributes, name, value)


# --- items ------------------------------------------------------------------------------------------------------


def item(machine: Machine, value: v.Value, index: v.Value, text: str, node: p.Expr) -> v.Value:
    """``value[index]``."""
    if isinstance(value, v.Unknown) and value.role is not None:
        value = value.role
    key = coerce(machine, index)
    match value:
        case v.Seq(items=items) if isinstance(key, v.Number) and isinstance(key.value, int):
            if -len(items) <= key.value < len(items):
                return items[key.value]
        case v.Seq(items=items) if items and all(type(i) is type(items[0]) for i in items):
            return items[0] if len(items) == 1 else v.Unknown(text, is_varying(index), flow_of(value))
        case v.DictValue(items=entries) if isinstance(key, (v.Const, v.Number)):
            if key.value in entries:
                found = entries[key.value]
                # A number in a configuration is as good as any other, as one that arguments default to.
                is_setting = names_settings(text) and not machine.program.is_model(node.site.path)
                return v.Unknown(text) if isinstance(found, v.Number) and is_setting else found
        case v.DictValue(items=entries) if len(entries) == 1 and isinstance(
            index, (v.Parameters, v.Gradient)
        ):
            return next(iter(entries.values()))  # ``{p: SGD([p]) for p in model.parameters()}[p]``
        case v.DictValue(items=entries) if entries and isinstance(index, v.Unknown) and not index.varying:
            return _looked_up(machine, entries, index, node)
        case v.Model():
            return v.Model(f"{value.id}.{text_of(index)}", value.wrapper, value.bypassed)
        case v.Parameters():
            return v.Parameters(value.models, True, value.each, value.text)
        case v.Derivative():
            return value
        case v.Unknown():
            name = f"[{text_of(index)}]"
            if name in value.attributes:
                return value.attributes[name]
            result = v.Unknown(f"{value.text}{name}", value.varying or is_varying(index), value.flow)
            if not is_varying(index):
                value.attributes[name] = result
            return result
        case v.Foreign(text=owner):
            return v.Foreign(f"{owner}[]")
    return v.Unknown(text, is_varying(value) or is_varying(index), flow_of(value))


def _looked_up(machine: Machine, entries: dict[object, v.Value], index: v.Unknown, node: p.Expr) -> v.Value:
    """``{"fp16": torch.float16, ...}[args.dtype]``: one choice for each key, of which one must hold."""
    for key, value in entries.items():
        literal = (
            v.Const(key) if isinstance(key, str) else v.Number(key) if isinstance(key, (int, float)) else None
        )
        if literal is None:
            continue
        holds, _ = truth(machine, compare(machine, "==", index, literal), node.site)
        if holds:
            return value
    if all(isinstance(key, (str, int, float)) for key in entries):
        raise Infeasible
    return list(entries.values())[-1]
