"""Hand-rolled recomputation: an ``autograd.Function`` whose backward runs the forward once more.

    with torch.enable_grad():
        outputs = ctx.run_function(*inputs)

Nothing restores the autocast of the forward there, unless the code does: ``custom_bwd``, or an autocast of its own.
``torch.utils.checkpoint`` restores it by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampcheck import program as p

__all__ = ["FUNCTION", "bare_recompute", "uses_autocast"]

FUNCTION = "torch.autograd.Function"

CONTEXT = frozenset({"save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads"})


def bare_recompute(cls: p.ClassDef) -> p.Call | None:
    """The call by which a Function's backward recomputes outside autocast; None where it does not, or not for sure."""
    for method in cls.body:
        if not isinstance(method, p.FunctionDef) or method.name != "backward" or not method.parameters:
            continue
        nodes = list(p.walk(*method.decorators, *method.body))
        if any("autocast" in name or name == "custom_bwd" for name in _names(nodes)):
            return None
        for node in nodes:
            if isinstance(node, p.With) and _only_enables(node):
                found = _call_of(node.body, method.parameters[0].name)
                if found is not None:
                    return found
    return None


def uses_autocast(body: tuple[p.Stmt, ...]) -> bool:
    """Whether a module has to do with autocast at all: where models are cast as a whole, there is none to restore."""
    return any("autocast" in name for name in _names(p.walk(*body)))


def _names(nodes: Iterable[p.Node]) -> Iterable[str]:
    for node in nodes:
        if isinstance(node, p.Name):
            yield node.id
        elif isinstance(node, p.Attribute):
            yield node.attr


def _only_enables(node: p.With) -> bool:
    """Whether a block turns gradients on and does nothing else."""
    names = [list(_names(p.walk(expression))) for expression, _ in node.items]
    return bool(names) and all("enable_grad" in found for found in names)


def _call_of(body: tuple[p.Stmt, ...], context: str) -> p.Call | None:
    """A call of what the forward left in its context, directly in a block."""
    for statement in body:
        if not isinstance(statement, (p.Assign, p.ExprStmt)) or statement.value is None:
            continue
        for node in p.walk(statement.value):
            if isinstance(node, p.Call) and isinstance(node.func, p.Attribute):
                owner = node.func.value
                if isinstance(owner, p.Name) and owner.id == context and node.func.attr not in CONTEXT:
                    return node
    return None
