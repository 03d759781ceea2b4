"""The files of a project: imports resolved, parsed on demand, remembered for the files that come after.

What a definition has to do with a training step is decided by outlines (`ampcheck.lowering.outline`): names, no scopes,
no flow.
"""

from __future__ import annotations

import ast
import os
from contextlib import suppress
from dataclasses import dataclass, field

from ampcheck import program as p
from ampcheck.answers import Answers
from ampcheck.imports import may_be_local, module_file, search_folders, spelled, submodule
from ampcheck.library.models import model_file, model_of
from ampcheck.lowering.outline import Outline
from ampcheck.lowering.returning import returns_of
from ampcheck.lowering.telling import contributes, is_mute, tells
from ampcheck.own_names import OwnNames
from ampcheck.program import Link
from ampcheck.readings import Readings
from ampcheck.requirements import Requirements
from ampcheck.returns import UNTOLD, Returns
from ampcheck.source import Source, Unreadable, read_bytes

__all__ = ["Project"]

# What a project's own accumulators are taken for.
ACCUMULATOR = "accelerate.Accelerator"
# How far events are looked for through imports.
DEEPEST = 4
# A definition without events is taken in when it is short and can contribute to a step: a boundary's test, a loss, a
# constant.
SHORT = 15
# ... and not farther than this from the file itself.
NEAR = 2


@dataclass(slots=True)
class Project:
    """Files read so far.  One serves a whole check; its `readings` may serve the next one as well.

    `roots` are folders in which imports are looked for first, `names` the project's own names for wrappers,
    `requirements` the versions that it declares.
    """

    roots: tuple[str, ...] = ()
    names: OwnNames = field(default_factory=OwnNames)
    readings: Readings = field(default_factory=Readings)
    requirements: Requirements = field(default_factory=Requirements)
    _files: dict[str, tuple[Source, Outline] | None] = field(default_factory=dict)
    _modules: dict[tuple[str, frozenset[str], frozenset[str]], p.Module | None] = field(default_factory=dict)
    _found: Answers[tuple[str, str], Link] = field(default_factory=Answers)
    _returns: dict[Link, Returns] = field(default_factory=dict)
    _eventful: Answers[tuple[Link, int], bool] = field(default_factory=Answers)

    def take(self, source: Source) -> None:
        """Know a file that somebody else has read."""
        self._files[spelled(source.path)] = source, self.readings.outline(source)

    # --- files ------------------------------------------------------------------------------------------------

    def outline(self, path: str) -> Outline:
        """A file's outline; empty where it cannot be read."""
        known = self._read(path)
        return known[1] if known else Outline()

    def _read(self, path: str) -> tuple[Source, Outline] | None:
        if path not in self._files:
            self._files[path] = None
            try:
                file = model_file(path) if p.Program.is_model(path) else path
                source = self.readings.source(path, read_bytes(file))
                self._files[path] = source, self.readings.outline(source)
            except Unreadable:
                pass  # it has a finding of its own when it is checked itself
        return self._files[path]

    def module(self, path: str, wanted: frozenset[str], hooks: frozenset[str]) -> p.Module | None:
        """The core program of some definitions of a file."""
        if p.Program.is_model(path):
            wanted = hooks = frozenset()  # the whole of it, once
        key = path, wanted, hooks
        if key not in self._modules:
            self._modules[key] = None
            known = self._read(path)
            if known is not None and known[0].tree is not None:
                with suppress(Unreadable):
                    self._modules[key] = self.readings.lowered(*known, self.holders(path), wanted, hooks)
        return self._modules[key]

    # --- names ------------------------------------------------------------------------------------------------

    def find(self, path: str, dotted: str) -> Link | None:
        """What a dotted name means in a file: a definition or module of the project or of a library model."""
        alone = dotted.startswith(".") or not dotted or p.Program.is_model(path)
        key = path if alone else os.path.dirname(path), dotted
        return self._found.get(key, lambda: self._search(path, dotted))

    def _search(self, path: str, dotted: str) -> Link | None:
        names = [n for n in dotted.lstrip(".").split(".") if n]
        if dotted.startswith("."):
            if p.Program.is_model(path):
                return None
            folder = os.path.dirname(path)
            for _ in range(len(dotted) - len(dotted.lstrip(".")) - 1):
                folder = os.path.join(folder, "..")
            folder = os.path.normpath(folder) if folder else ""
            folder = "" if folder == "." else folder
            package = module_file(os.path.dirname(folder), os.path.basename(folder))
            return self._walk(folder, names, package)
        model = model_of(ACCUMULATOR if self.names.is_accumulator(dotted) else dotted)
        # What stands beside a script comes before any library of that name, for Python as well.
        if model is not None and not module_file(os.path.dirname(path), names[0]):
            return self._chase(*model, frozenset()) if model[1] else Link(model[0])
        if p.Program.is_model(path) or not names or not may_be_local(path, names[0]):
            return None
        for folder in search_folders(path, self.roots):
            if module_file(folder, names[0]) or submodule(folder, names[0]):
                found = self._walk(folder, names)
                if found is not None:
                    return found
        return None

    def _walk(self, folder: str, names: list[str], package: str | None = None) -> Link | None:
        """Follow the parts of a name from a folder, whose own `package` is asked by relative imports only."""
        if package is not None and not package.endswith("__init__.py"):
            package = None
        for index, name in enumerate(names):
            rest = names[index + 1 :]
            named = self._chase(package, name, frozenset()) if package is not None else None
            if named is not None and named.name and not rest:
                return named
            file, inner = module_file(folder, name), submodule(folder, name)
            if file is None and inner is None:
                return self._inside(named, rest)
            if file is not None and not file.endswith("__init__.py"):
                return self._inside(Link(file), rest)
            package, folder = file, inner or folder
        return Link(package) if package is not None else None

    def _inside(self, link: Link | None, names: list[str]) -> Link | None:
        """Follow the rest of a name into a module; what is inside a definition is not looked for."""
        if link is None or not names:
            return link
        if link.name:
            return None
        if link.path.endswith("__init__.py"):
            return self._walk(os.path.dirname(link.path), names, link.path)
        return self._inside(self._chase(link.path, names[0], frozenset()), names[1:])

    def named(self, path: str, name: str) -> Link | None:
        """What a name means at a module's top level: defined there, imported, or from a star import."""
        return self._chase(path, name, frozenset())

    def spelled_as(self, path: str, text: str) -> Link | None:
        """What a name or a chain of names means where it is written in a file: ``Engine``, ``core.Engine``."""
        top, _, rest = text.partition(".")
        if not rest:
            return self.named(path, top)
        origin = self.outline(path).imports.get(top)
        return self.find(path, f"{origin}.{rest}") if origin else None

    def _chase(self, path: str, name: str, seen: frozenset[tuple[str, str]]) -> Link | None:
        """A name of a module, through what the module itself imports it from."""
        if (path, name) in seen or len(seen) > 12:
            return None
        seen |= {(path, name)}
        facts = self.outline(path)
        if name in facts.exports:
            return Link(path, name)
        if name in facts.imports:
            origin = facts.imports[name]
            return self.find(path, origin) if (path, origin) not in seen else None
        for star in facts.stars:
            module = self.find(path, star)
            if module is not None and not module.name:
                found = self._chase(module.path, name, seen)
                if found is not None:
                    return found
        return None

    def returns(self, link: Link) -> Returns:
        """What the objects of a class of the project give back when they are called."""
        if link not in self._returns:
            facts = self.outline(link.path)
            piece = facts.exports.get(link.name)
            cls = piece.statement if piece is not None else None
            if isinstance(cls, ast.ClassDef) and not p.Program.is_model(link.path):
                self._returns[link] = returns_of(cls, facts.imports)
            else:
                self._returns[link] = UNTOLD
        return self._returns[link]

    # --- events -----------------------------------------------------------------------------------------------

    def is_eventful(self, path: str, name: str, depth: int = 0) -> bool:
        """Whether a name's definition holds part of a training step, as far as names tell."""
        facts = self.outline(path)
        if name in facts.exports:
            link: Link | None = Link(path, name)
        else:
            link = self.find(path, facts.imports[name]) if name in facts.imports else None
        if link is None or not link.name:
            return False
        return self._holds(link, depth)

    def _holds(self, link: Link, depth: int) -> bool:
        if depth > DEEPEST:
            return False
        # How far is still looked depends on the depth: an answer from farther away is another question's.
        return bool(self._eventful.get((link, depth), lambda: self._looks_eventful(link, depth)))

    def _looks_eventful(self, link: Link, depth: int) -> bool:
        facts = self.outline(link.path)
        pieces = facts.reachable(frozenset({link.name}))
        if any(tells(piece) for piece in pieces):
            return True
        names = {name for piece in pieces for name in piece.used if name in facts.imports}
        return any(self.is_eventful(link.path, name, depth + 1) for name in sorted(names))

    def holders(self, path: str) -> frozenset[str]:
        """The names by which a file may call imported definitions that hold events."""
        facts = self.outline(path)
        found = {name for name in facts.imports if self.is_eventful(path, name)}
        used: set[str] | None = None
        for dotted in facts.imports.values():
            module = self.find(path, dotted)
            if module is None or module.name or module.path == path:
                continue
            if used is None:
                used = {name for piece in facts.pieces for name in piece.used}
            exports = self.outline(module.path)
            names = used & (exports.exports.keys() | exports.imports.keys())
            found |= {name for name in names if self.is_eventful(module.path, name, 1)}
        return frozenset(found)

    def takes_in(self, link: Link, distance: int) -> bool:
        """Whether a definition is worth reading for a file that imports it."""
        facts = self.outline(link.path)
        piece = facts.exports.get(link.name)
        if piece is None:
            return False
        if p.Program.is_model(link.path) or self._holds(link, 0):
            return not is_mute(piece)
        return distance <= NEAR and piece.lines <= SHORT and contributes(piece)
