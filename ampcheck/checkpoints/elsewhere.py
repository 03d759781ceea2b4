"""Helpers of the same project that save what they are handed: ``utils.save_checkpoint(model, optimizer, path)``.

Only a helper that is found and seen to save both states counts; one that cannot be found may do anything.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from ampcheck.running.naming import names_optimizer
from ampcheck.source import Unreadable, decode, is_file, read_bytes
from ampcheck.syntax import called

__all__ = ["Elsewhere"]

LEVELS = 4
"""How many folders upwards a package's root is looked for."""


@dataclass(slots=True)
class Elsewhere:
    """The modules beside a file, read when they are asked for."""

    path: str
    tree: ast.Module
    modules: dict[str, ast.Module | None] = field(default_factory=dict)

    def saves_states(self, call: ast.Call) -> bool:
        """Whether a call's function, imported from this project, saves an optimizer's state and nothing of a scaler."""
        name = called(call)
        for file in self._files(call, name):
            tree = self._module(file)
            for node in tree.body if tree is not None else ():
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return _saves_both(node)
        return False

    def _files(self, call: ast.Call, name: str) -> Iterator[str]:
        for node in ast.walk(self.tree):
            match node, call.func:
                case ast.ImportFrom(module=module, level=level, names=names), ast.Name():
                    if any((alias.asname or alias.name) == name for alias in names):
                        yield from self._candidates(module or "", level)
                case ast.ImportFrom(module=module, level=level, names=names), ast.Attribute(
                    value=ast.Name(id=owner)
                ):
                    if any((alias.asname or alias.name) == owner for alias in names):
                        yield from self._candidates(f"{module}.{owner}" if module else owner, level)
                case ast.Import(names=names), ast.Attribute(value=ast.Name(id=owner)):
                    for alias in names:
                        if (alias.asname or alias.name) == owner:
                            yield from self._candidates(alias.name, 0)

    def _candidates(self, module: str, level: int) -> Iterator[str]:
        folder = os.path.dirname(os.path.abspath(self.path))
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        for _ in range(1 if level else LEVELS):
            base = os.path.join(folder, *module.split(".")) if module else folder
            yield f"{base}.py"
            yield os.path.join(base, "__init__.py")
            folder = os.path.dirname(folder)

    def _module(self, file: str) -> ast.Module | None:
        if file not in self.modules:
            self.modules[file] = None
            if is_file(file):
                with suppress(Unreadable):
                    self.modules[file] = decode(file, read_bytes(file)).tree
        return self.modules[file]


def _saves_both(function: ast.FunctionDef) -> bool:
    """Whether a function takes the states of an optimizer and of something else, and knows of no scaler."""
    text = ast.unparse(function).lower()
    if "scaler" in text or "kwargs" in text:
        return False
    owners = [
        ast.unparse(node.func.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "state_dict"
    ]
    optimizers = [o for o in owners if names_optimizer(o)]
    return bool(optimizers) and len(optimizers) < len(owners)
