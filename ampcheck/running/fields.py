"""Classes whose `__init__` nobody writes: dataclasses, attrs' classes and named tuples keep their arguments."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.arguments import Arguments
from ampcheck.running.machine import Machine

__all__ = ["fill"]


def fill(machine: Machine, instance: v.Instance, given: Arguments, node: p.Expr) -> None:
    """Store the arguments of a call in the fields of the object that it makes; the rest keep their defaults.

    What a ``*`` or ``**`` may hand over is unknown, whatever its default.
    """
    fields = list(dict.fromkeys(_fields(instance.cls)))
    stars = {a.star for a in node.arguments if a.star} if isinstance(node, p.Call) else set()
    values = {} if "*" in stars else dict(zip(fields, given.args, strict=False))
    values |= given.keywords
    for name in fields:
        if name in values:
            machine.store(instance.attributes, name, values[name])
        elif stars:
            machine.store(instance.attributes, name, v.Unknown(f"{instance.id or 'self'}.{name}"))


def _fields(cls: v.Class) -> Iterator[str]:
    """The names of the fields in the order of `__init__`, those of bases first."""
    for base in reversed(cls.bases):
        if isinstance(base, v.Class):
            yield from _fields(base)
    if not p.is_record(cls.node):
        return
    for statement in cls.node.body:
        match statement:
            case p.Assign(targets=(p.Name(id=name),), annotation=p.Expr() as annotation, value=value):
                if "ClassVar" not in _words(annotation) and not _is_left_out(value):
                    yield name


def _words(node: p.Node) -> set[str]:
    named = (n for n in p.walk(node) if isinstance(n, p.Name | p.Attribute))
    return {n.id if isinstance(n, p.Name) else n.attr for n in named}


def _is_left_out(value: p.Expr | None) -> bool:
    """Whether a field's default says ``field(init=False)``."""
    return isinstance(value, p.Call) and any(
        a.name == "init" and isinstance(a.value, p.Constant) and a.value.value is False
        for a in value.arguments
    )
