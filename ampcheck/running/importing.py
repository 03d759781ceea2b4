"""Modules of the project and of library models: run when somebody first asks for a name of theirs."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.machine import Frame, Infeasible, Machine, Signal

__all__ = ["imported", "linked", "member_of", "starred"]

# What a module does besides defining things is not run: that is for whoever starts it.
DEFINING = (p.FunctionDef, p.ClassDef, p.Import, p.Assign, p.If, p.Try)


def imported(machine: Machine, path: str, dotted: str) -> v.Value:
    """What an imported name stands for in a file; the name alone where it is not of this program."""
    link = machine.program.link(path, dotted)
    return linked(machine, link, dotted) if link is not None else v.Lib(dotted)


def starred(machine: Machine, path: str) -> Iterator[tuple[str, v.Value]]:
    """The names that the star imports of a file bind, as far as it mentions them."""
    for (importer, name), link in machine.program.links.items():
        if importer == path and name.startswith("*"):
            yield name[1:], linked(machine, link, name[1:])


def member_of(machine: Machine, module: v.Namespace, name: str) -> v.Value:
    """``module.name``."""
    value = _frame(machine, module.path).names.get(name)
    dotted = f"{module.name}{name}" if module.name.endswith(".") else f"{module.name}.{name}"
    return value if value is not None else imported(machine, module.path, dotted)


def linked(machine: Machine, link: p.Link, dotted: str) -> v.Value:
    """What a link leads to; the name alone while an import cycle has not got there yet."""
    if not link.name:
        return v.Namespace(dotted, link.path)
    value = _frame(machine, link.path).names.get(link.name)
    return value if value is not None else v.Lib(dotted)  # an import cycle: found when it is used


def _frame(machine: Machine, path: str) -> Frame:
    """A module's names."""
    frame = machine.frames.get(path)
    if frame is None:
        frame = machine.frames[path] = Frame({"__name__": v.Const("module")})
        module = machine.program.modules.get(path)
        if module is not None:
            _run(machine, module, frame)
    return frame


def _run(machine: Machine, module: p.Module, frame: Frame) -> None:
    outer, trial, hint = machine.frame, machine.trial, machine.hint
    guards, path, active = machine.guards, machine.path, machine.active
    # A module runs once, whoever asks first and under whatever tests: nothing of that is its own.
    machine.frame, machine.trial, machine.hint = frame, None, ""
    machine.guards, machine.path, machine.active = [], [], []
    try:
        for statement in module.body:
            if isinstance(statement, DEFINING) and statement not in machine.layout.holding:
                machine.execute((statement,))
    except (Signal, Infeasible):
        pass  # it refuses to be imported on some machine, not here
    finally:
        machine.frame, machine.trial, machine.hint = outer, trial, hint
        machine.guards, machine.path, machine.active = guards, path, active
