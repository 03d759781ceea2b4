"""Objects that a root is given: what their annotations say they are, and libraries' engines by their names."""

from __future__ import annotations

from dataclasses import replace

from ampcheck import program as p
from ampcheck.library.models import ENGINE_NAMES
from ampcheck.library.torch import OPTIMIZERS, SCALERS
from ampcheck.running import values as v
from ampcheck.running.machine import Machine
from ampcheck.running.roles import as_optimizer, as_scaler, as_scheduler
from ampcheck.running.truth import truth

__all__ = ["argument", "engine_by_name", "is_none"]


def argument(machine: Machine, parameter: p.Parameter, index: int) -> v.Value:
    """A root's argument that nobody gives: unknown, or what its annotation names."""
    value = v.Unknown(parameter.name, argument=True, offset=index)
    annotation = _named(machine, parameter.annotation)
    if isinstance(annotation, v.Class) and p.Program.is_model(annotation.node.site.path):
        value.role = unknown_object(machine, annotation, parameter.name)
    elif isinstance(annotation, v.Lib):
        _as_role(machine, value, annotation.name)
    _stand_in(machine, value, parameter)
    return value


def _stand_in(machine: Machine, value: v.Unknown, parameter: p.Parameter) -> None:
    """What the root is handed may be an object of one of several classes: each is a configuration of its own."""
    for (name, annotation, attribute), links in machine.program.handed.items():
        if (name, annotation) != (parameter.name, _spelled(machine, parameter)) or value.role is not None:
            continue
        spelled = f"{name}.{attribute}" if attribute else name
        if spelled in machine.handed:
            _put(value, attribute, machine.handed[spelled])
            continue
        for index, link in enumerate(links):
            cls = machine.module_member(link)
            atom = v.Atom(f"{spelled} is a {link.name}", False, group=(f"type({spelled})", link.name))
            if not isinstance(cls, v.Class) or (
                index + 1 < len(links) and not truth(machine, atom, cls.node.site)[0]
            ):
                continue
            instance = machine.handed[spelled] = unknown_object(machine, cls, spelled)
            _put(value, attribute, instance)
            break


def _spelled(machine: Machine, parameter: p.Parameter) -> str:
    match parameter.annotation:
        case p.Constant(value=str() as text):
            return text
        case None:
            return ""
        case annotation:
            return machine.text(annotation)


def _put(value: v.Unknown, attribute: str, instance: v.Instance) -> None:
    if attribute:
        value.attributes[attribute] = instance
    else:
        value.role = instance


def _as_role(machine: Machine, value: v.Unknown, dotted: str) -> None:
    """An argument annotated as one of torch's own classes is that role, however it is called."""
    last = dotted.rsplit(".", 1)[-1]
    if not dotted.startswith("torch"):
        return
    role: v.Value | None = None
    if last == "Optimizer" or last in OPTIMIZERS:
        role = as_optimizer(machine, value, forced=True)
    elif last in SCALERS:
        role = as_scaler(machine, value, forced=True)
    elif last in ("LRScheduler", "_LRScheduler"):
        role = as_scheduler(machine, value)
    if isinstance(role, (v.Optimizer, v.Scaler, v.Scheduler)):
        machine.roles[role.id] = replace(machine.roles[role.id], known=True)
        if isinstance(role, v.Optimizer):
            role.known = True
            machine.setting.optimizers = tuple(
                replace(o, known=True) if o.id == role.id else o for o in machine.setting.optimizers
            )


def _named(machine: Machine, annotation: p.Expr | None) -> v.Value | None:
    """What an annotation names, in quotes or not; what may be None as well stays open."""
    match annotation:
        case p.Constant(value=str() as text) if text.isidentifier():
            return machine.frame.find(text)
        case p.Name() | p.Attribute():
            value = machine.evaluate(annotation)
            return value if isinstance(value, (v.Class, v.Lib)) else None
        case _:
            return None


def unknown_object(machine: Machine, cls: v.Class, name: str) -> v.Instance:
    """An object of a library model's class that was built elsewhere, with arguments that nobody knows.

    Those that the class lists in ``__usual__`` are taken as they are by default: hardly anybody sets them.
    """
    instance = v.Instance(cls, name)
    init, usual = cls.members.get("__init__"), cls.members.get("__usual__")
    left = (
        [name.value for name in usual.items if isinstance(name, v.Const)] if isinstance(usual, v.Seq) else []
    )
    if isinstance(init, v.Function) and isinstance(init.node, p.FunctionDef):
        unknown: dict[str, v.Value] = {
            parameter.name: v.Unknown(f"{name}.{parameter.name}")
            for parameter in init.node.parameters[1:]
            if not parameter.star and not is_none(parameter.default) and parameter.name not in left
        }
        hint, machine.hint = machine.hint, name
        machine.call(v.Bound(init, instance), [], unknown, p.Opaque(cls.node.site))
        machine.hint = hint
    if "prepare" in cls.members:
        machine.engine = instance
        machine.births[instance] = name
    return instance


def is_none(value: p.Expr | None) -> bool:
    """Whether an expression is ``None``; a parameter with it by default is for what is seldom given."""
    return isinstance(value, p.Constant) and value.value is None


# What only an engine has: ``accelerator`` alone is as often a device.
UNMISTAKABLE = frozenset(
    "accumulate backward sync_gradients clip_grad_norm_ clip_grad_value_ clip_gradients unscale_gradients prepare "
    "setup no_backward_sync gather_for_metrics optimizer_step_was_skipped".split()
)


def engine_by_name(machine: Machine, value: v.Unknown, attribute: str) -> v.Instance | None:
    """The engine that an unknown object is by its name and by what is asked of it: ``self.accelerator.backward``."""
    if attribute not in UNMISTAKABLE or value.varying or value.flow is not None or "(" in value.text:
        return None
    dotted = ENGINE_NAMES.get(value.text.rsplit(".", 1)[-1].strip("_"))
    link = machine.program.links.get(("", dotted)) if dotted else None
    if link is None:
        return None
    cls = machine.module_member(link)
    if not isinstance(cls, v.Class):
        return None
    machine.touch()
    value.role = unknown_object(machine, cls, value.text)
    return value.role
