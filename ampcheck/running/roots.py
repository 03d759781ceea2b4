"""Starts a run at a root: the module's own statements, then the function with arguments that nobody knows.

A function without a loop of its own is called again and again, once a micro-batch; one that is an epoch, twice at most.
One that only holds the tail of a step finds gradients there as its scaler would have left them.
"""

from __future__ import annotations

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import PLAIN, Unit
from ampcheck.running import norms
from ampcheck.running import values as v
from ampcheck.running.annotations import argument
from ampcheck.running.attributes import forget_unset
from ampcheck.running.classes import class_kind
from ampcheck.running.epochs import first_count, is_one_epoch
from ampcheck.running.layout import DRIVE, Root
from ampcheck.running.looping import OUTER
from ampcheck.running.machine import Machine, Signal

__all__ = ["start"]


def start(machine: Machine, origin: Root) -> None:
    """Run a root to its end."""
    root = origin.function
    machine.frame.names["__name__"] = v.Const("__main__" if root is None else "module")
    machine.at = origin.site or machine.at
    try:
        _module(machine, root)
        if root is not None:
            _function(machine, root, origin.cls)
    except Signal:
        return


def _module(machine: Machine, root: p.FunctionDef | None) -> None:
    for statement in machine.module.body:
        if root is not None and statement in machine.layout.holding:
            continue
        machine.execute((statement,))


def _function(machine: Machine, root: p.FunctionDef, cls: p.ClassDef | None) -> None:
    function = _callable(machine, root, cls)
    if function is None:
        return
    if root in machine.layout.looping or machine.setting.loops or root.name == DRIVE:
        _epochs(machine, root, function)
        return
    machine.synthetic = True
    for index in range(2 * machine.setting.batches):
        machine.path.append((root.site, index))
        machine.tick += 1
        if machine.setting.scaled_tail is not None:
            _left_behind(machine, root)
        try:
            result = machine.call(function, [], _arguments(machine, root, index), p.Opaque(root.site))
            norms.use(machine, result, "kept")
        except Signal as signal:
            if signal.kind == "raise":
                return
        finally:
            machine.path.pop()
            machine.guards.clear()
    if machine.setting.scaled_tail is None and _is_tail(machine):
        scalers = [r.id for r in machine.roles.values() if r.kind == "scaler"]
        machine.setting.scaled_tail = scalers[0] if scalers else ""
        machine.setting.grown = True


def _epochs(machine: Machine, root: p.FunctionDef, function: v.Value) -> None:
    """Call a function that holds the loop.

    Twice, where it is one epoch of several and leaves gradients to the next, or builds a scaler that should last.
    """
    if not is_one_epoch(root, machine.layout):
        norms.use(machine, machine.call(function, [], _arguments(machine, root), p.Opaque(root.site)), "kept")
        return
    for epoch in range(OUTER):
        if epoch and not (machine.has_leftover or _builds_scaler(machine)):
            return
        machine.path.append((root.site, epoch))
        arguments = _arguments(machine, root, epoch=epoch)
        try:
            norms.use(machine, machine.call(function, [], arguments, p.Opaque(root.site)), "kept")
        finally:
            machine.path.pop()
            machine.guards.clear()


def _builds_scaler(machine: Machine) -> bool:
    """Whether a scaler is built, for an optimizer that is handed in."""
    built = {r.event.kind for r in machine.records if isinstance(r.event, ev.Build)}
    return "scaler" in built and "optimizer" not in built


def _callable(machine: Machine, root: p.FunctionDef, cls: p.ClassDef | None) -> v.Value | None:
    if cls is None:
        value = machine.frame.find(root.name)
        return value if isinstance(value, v.Function) and value.node is root else None
    owner = machine.frame.find(cls.name)
    if not isinstance(owner, v.Class) or owner.node is not cls:
        return None
    if class_kind(owner) == "engine" and root.name != DRIVE:
        return None
    instance = machine.call(owner, [], _options(machine, owner), p.Opaque(cls.site))
    if not isinstance(instance, v.Instance):
        instance = v.Instance(owner)
    instance.id = "self"
    forget_unset(instance, root)
    value = machine.evaluate_attribute(instance, root.name)
    return value if isinstance(value, (v.Bound, v.Function)) else None


def _options(machine: Machine, cls: v.Class) -> dict[str, v.Value]:
    """A constructor's options are open, whatever they are by default: nobody knows who builds the object, and how.

    What defaults to None (``model=None``) may be given all the same.
    """
    init = cls.members.get("__init__")
    parameters = init.node.parameters[1:] if isinstance(init, v.Function) else ()
    return {
        parameter.name: v.Unknown(parameter.name, argument=True)
        for parameter in parameters
        if isinstance(parameter.default, p.Constant)
        and (
            parameter.default.value is None
            or isinstance(parameter.default.value, (bool, str))
            or machine.names_window(parameter.name)
        )
    }


def _arguments(machine: Machine, root: p.FunctionDef, index: int = 0, epoch: int = 0) -> dict[str, v.Value]:
    """Unknown arguments by name; an annotation that names a role makes it one (`ampcheck.running.roles`)."""
    arguments: dict[str, v.Value] = {}
    parameters = root.parameters[1:] if root in machine.layout.classes else root.parameters
    for parameter in parameters:
        if parameter.name and not parameter.star:
            offset = first_count(parameter.name, epoch, machine.setting.batches) if epoch else index
            arguments[parameter.name] = argument(machine, parameter, offset)
    return arguments


def _is_tail(machine: Machine) -> bool:
    kinds = {type(r.event) for r in machine.records}
    if machine.differentiates:
        return False
    return bool(kinds & {ev.Step, ev.Clip, ev.Unscale}) and not kinds & {ev.Backward, ev.Escape}


def _left_behind(machine: Machine, root: p.FunctionDef) -> None:
    """The gradients that the caller's backward left."""
    scaler = machine.setting.scaled_tail
    unit = Unit(((scaler, 1),)) if scaler and _may_scale(machine, scaler) else PLAIN
    owners = tuple(o.id for o in machine.optimizers())
    machine.emit(
        ev.Backward(
            site=root.site, loss=ev.Loss((unit,)), reaches=owners, micro=machine.begin_micro(), found=True
        )
    )


def _may_scale(machine: Machine, scaler: str) -> bool:
    return machine.choices.invariant.get(scaler) is not False
