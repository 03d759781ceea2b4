"""A project's own scalers and optimizers, known by the names that its settings give."""

from __future__ import annotations

from ampcheck import program as p
from ampcheck.running import roles
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.machine import Machine

__all__ = ["build_wrapper"]


def build_wrapper(machine: Machine, callee: v.Value, given: Arguments, node: p.Expr) -> v.Value | None:
    """The scaler or optimizer that a call constructs; None where the settings do not name what is called."""
    names = machine.program.names
    if not names.scalers and not names.optimizers:
        return None
    dotted = _dotted(callee)
    last = dotted.rsplit(".", 1)[-1]
    if names.is_scaler(dotted):
        return roles.build_scaler(machine, last, given.keywords, node, last)
    if names.is_optimizer(dotted):
        inner = roles.role_of(given.all[0]) if given.all else None
        # One around another steps on the other's parameters: it keeps its name.
        return inner if isinstance(inner, v.Optimizer) else _optimizer(machine, last, given, node)
    return None


def _optimizer(machine: Machine, last: str, given: Arguments, node: p.Expr) -> v.Value:
    return roles.build_optimizer(machine, last, given.get(0, "params"), node)


def _dotted(callee: v.Value) -> str:
    """How a class or function is called with its module, as far as its file tells."""
    match callee:
        case v.Lib(name=name):
            return name
        case v.Class(node=node) | v.Function(node=p.FunctionDef() as node):
            module = node.site.path.removesuffix(".py").removesuffix("/__init__")
            return f"{module.replace('/', '.')}.{node.name}"
        case _:
            return ""
