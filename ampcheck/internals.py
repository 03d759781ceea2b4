"""Private attributes of a loss scaler that a file reads or writes, found without running anything.

Such a use is wrong wherever it stands, in a function that nothing calls as well; it needs no run, as the use of a
deprecated name needs none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from ampcheck.events import Internal, Site
from ampcheck.gradients import State
from ampcheck.library.torch import SCALERS, is_torch
from ampcheck.running.naming import names_scaler
from ampcheck.source import Source
from ampcheck.trace import Record, Role, Trace

__all__ = ["internals_of"]

# `_scale` is a name that others use as well; the rest is GradScaler's alone.
PRIVATE = ("_scale", "_growth_tracker", "_per_optimizer_states")
FOUND_INF = "_found_inf"


def internals_of(source: Source) -> Iterator[Trace]:
    """Each use of a scaler's private attribute, as a trace of its own."""
    if source.tree is None or not any(name in source.text for name in (*PRIVATE, FOUND_INF)):
        return
    facts = _facts(source.tree)
    lines = source.lines
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute) or not _is_private(node.attr):
            continue
        owner = _spelled(node.value)
        known = facts.knows(owner, node.attr)
        if known is None:
            continue
        written = not isinstance(node.ctx, ast.Load)
        event = Internal(site=_site(source.path, lines, node), scaler=owner, name=node.attr, written=written)
        role = Role(owner, "scaler", owner, known)
        yield Trace("the file", (Record(0, event, State(), State(), 0, 0),), {owner: role})


def _is_private(name: str) -> bool:
    return name in PRIVATE or name.startswith(FOUND_INF)


@dataclass(slots=True)
class _Facts:
    """What a file says of its scalers.

    `imported`: the names under which torch's classes are imported; `built`: what is bound to one of them or annotated
    as one, `foreign` what is bound to an object of another class; `updated`: what steps optimizers and is updated, as
    GradScalers are; `classes`: those of the file, and others' that are called scalers; `held`: the private names that
    the file's classes give to objects of their own.
    """

    imported: set[str] = field(default_factory=set)
    built: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    updated: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)

    def knows(self, owner: str, name: str) -> bool | None:
        """Whether an expression certainly is torch's scaler; None where it is not taken for one."""
        root = owner.split(".")[0]
        if not owner or owner in ("self", "cls") or "(" in root or name in self.held or owner in self.foreign:
            return None
        if owner in self.built:
            return True
        if not names_scaler(owner):
            return None
        if not SCALERS.isdisjoint(self.classes):
            return None  # another library's
        if any(names_scaler(cls) for cls in self.classes):
            return False
        return bool(self.imported) or owner in self.updated or name != "_scale"


def _facts(tree: ast.Module) -> _Facts:
    facts = _Facts()
    stepping: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if is_torch(module):
                facts.imported |= {a.asname or a.name for a in names if a.name in SCALERS}
            case ast.ImportFrom(names=names):
                facts.classes |= {a.name for a in names if a.name[:1].isupper() and names_scaler(a.name)}
            case ast.Call(func=ast.Attribute(value=value, attr="step"), args=[_, *_]):
                stepping.add(_spelled(value))
            case ast.Call(func=ast.Attribute(value=value, attr="update")):
                facts.updated.add(_spelled(value))
            case ast.Attribute(attr=name) if name in SCALERS and is_torch(_spelled(node)):
                facts.imported.add(_spelled(node))
            case ast.ClassDef(name=name):
                facts.classes.add(name)
                # Whoever gives these names to an object of its own means that object.
                facts.held |= {
                    n.attr
                    for n in ast.walk(node)
                    if isinstance(n, ast.Attribute) and _is_private(n.attr) and _spelled(n.value) == "self"
                }
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=ast.Call(func=called)):
                kinds = facts.built if _spelled(called) in facts.imported else facts.foreign
                kinds |= {_spelled(t) for t in targets if kinds is facts.built or _is_class(called)}
            case ast.AnnAssign(target=target, annotation=annotation) if _names(annotation, facts.imported):
                facts.built.add(_spelled(target))
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _names(annotation, facts.imported):
                facts.built.add(name)
            case _:
                pass
    facts.foreign -= facts.built
    facts.updated &= stepping
    return facts


def _is_class(called: ast.expr) -> bool:
    """Whether a call builds an object of another class: by its capital letter, unless it is a scaler's own name."""
    last = _spelled(called).rsplit(".", 1)[-1]
    return last[:1].isupper() and last not in SCALERS


def _names(annotation: ast.expr, classes: set[str]) -> bool:
    """Whether an annotation mentions a class: itself, optional, or as a string."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name | ast.Attribute) and _spelled(node) in classes:
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in classes:
            return True
    return False


def _spelled(node: ast.expr) -> str:
    """``self.trainer.scaler``; empty for what is no chain of names (items and calls stay as they are)."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            owner = _spelled(value)
            return f"{owner}.{name}" if owner else ""
        case ast.Subscript(value=value):
            return _spelled(value)
        case _:
            return ""


def _site(path: str, lines: tuple[str, ...], node: ast.expr) -> Site:
    """Where a node stands; the standard library counts columns in bytes."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0

    def column(line: int, offset: int) -> int:
        return len(lines[line - 1].encode()[:offset].decode(errors="replace")) + 1

    return Site(
        path, node.lineno, column(node.lineno, node.col_offset), end_line, column(end_line, end_column)
    )
