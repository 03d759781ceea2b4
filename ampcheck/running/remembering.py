"""Remembers what pure expressions came to, so that data flowing through a loop is computed once, not once a batch.

Most of a training file computes data.  An expression that emitted nothing, bound nothing and called no function of the
project depends on the names it reads alone; while those look the same, so does its value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.machine import Machine

__all__ = ["remembered"]

Key = tuple[object, ...]


@lru_cache(maxsize=8192)
def _names(node: p.Expr) -> tuple[str, ...]:
    """The names an expression reads; with a walrus or yield in it, it is not pure: then there are none."""
    names: dict[str, None] = {}
    for inner in p.walk(node):
        if isinstance(inner, (p.NamedExpr, p.Yield, p.Lambda, p.Comprehension)):
            return ("",)
        if isinstance(inner, p.Name):
            names[inner.id] = None
    return tuple(names)


def _look(value: v.Value | None) -> object:
    """What an expression can tell of a value; None where it could tell more than this module knows."""
    match value:
        case v.Unknown(role=None, varying=True, text=text, flow=flow, offset=offset, modulus=modulus):
            return (text, flow, offset, modulus)
        case v.Unknown() | v.Lib() | v.Const() | v.Model() | v.Truth() | v.Foreign():
            return id(value)
        case v.Number(value=number, unit=unit, symbol=symbol, counter=False):
            return (number, unit, symbol)
        case _:
            return None


def _key(machine: Machine, node: p.Expr) -> Key | None:
    names = _names(node)
    if names == ("",):
        return None
    casts = tuple(map(id, machine.autocasts))
    looks: list[object] = [machine.no_grad, tuple(machine.unsynced), frozenset(machine.frozen), casts]
    for name in names:
        value = machine.frame.find(name)
        if value is None:
            continue
        look = _look(value)
        if look is None:
            return None
        looks.append(look)
    return tuple(looks)


def remembered(machine: Machine, node: p.Expr, compute: Callable[[], v.Value]) -> v.Value:
    """The value of an expression, from memory if it is pure and reads the same values as before."""
    if not isinstance(node, (p.Call, p.Binary, p.Subscript, p.Attribute)) or node in machine.impure:
        return compute()
    key = _key(machine, node)
    if key is None:
        return compute()
    known = machine.memory.get(node)
    if known is not None and known[0] == key:
        return known[1]
    before = machine.doings
    value = compute()
    if machine.doings != before or not isinstance(value, v.Unknown) or value.role is not None:
        machine.impure.add(node)
    else:
        # The looks go by identity: what they looked at must stay alive as long as they do.
        machine.memory[node] = key, value, [machine.frame.find(name) for name in _names(node)]
    return value
