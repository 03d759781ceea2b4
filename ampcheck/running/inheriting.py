"""Base classes by name, before anything runs: across the files of a program."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck import program as p

__all__ = ["ancestors"]


def ancestors(program: p.Program, cls: p.ClassDef) -> Iterator[p.ClassDef]:
    """The classes that a class derives from, nearest first, as far as they are in the program."""
    seen = {cls}
    pending = [cls]
    while pending:
        current = pending.pop(0)
        for base in current.bases:
            found = _class(program, current.site.path, base)
            if found is not None and found not in seen:
                seen.add(found)
                pending.append(found)
                yield found


def _class(program: p.Program, path: str, base: p.Expr) -> p.ClassDef | None:
    if isinstance(base, p.Subscript):  # ``Trainer[Model]``
        base = base.value
    module = program.modules.get(path)
    if module is None:
        return None
    if isinstance(base, p.Name):
        local = _defined(module, base.id)
        if local is not None:
            return local
    dotted = p.dotted(base, p.imports_of(module))
    link = program.link(path, dotted) if dotted else None
    if link is None and isinstance(base, p.Name):
        link = program.links.get((path, f"*{base.id}"))
    if link is None or link.path not in program.modules:
        return None
    return _defined(program.modules[link.path], link.name)


def _defined(module: p.Module, name: str) -> p.ClassDef | None:
    for node in module.body:
        if isinstance(node, p.ClassDef) and node.name == name:
            return node
    return None
