"""Tests that pick parameters out of a loop over them: what is done to those is not done to the others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.machine import Machine

__all__ = ["picks_parameters"]

# Asking for these leaves out only what has no gradient.
OF_ALL = ("grad", "requires_grad")


def picks_parameters(machine: Machine, test: p.Expr) -> bool:
    """Whether a test asks something of the parameter (or its name) that the loop around it has come to.

    ``if getattr(p, "expert", False)``, ``if "bias" in name``; not ``if p.grad is not None``.
    """
    loop = machine.loop_nodes[-1] if machine.loop_nodes else None
    if not isinstance(loop, p.For):
        return False
    targets = {n.id for n in p.walk(loop.target) if isinstance(n, p.Name)}
    asked = targets & _asked_names(test)
    return bool(asked) and any(_is_parameter(machine.frame.names.get(name)) for name in targets)


@lru_cache(maxsize=4096)
def _asked_names(test: p.Expr) -> frozenset[str]:
    return frozenset(_asked(test))


def _asked(node: p.Node) -> Iterator[str]:
    if isinstance(node, p.Attribute) and node.attr in OF_ALL:
        return
    if isinstance(node, p.Name):
        yield node.id
    for child in p.children(node):
        yield from _asked(child)


def _is_parameter(value: v.Value | None) -> bool:
    return isinstance(value, v.Parameters) and value.each
