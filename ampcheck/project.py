"""The modules around a file: imports resolved, parsed on demand, remembered for the files that come after.

A `Program` holds the file itself and those definitions of other modules that its training step can depend on.
Which these are is decided by outlines (`ampcheck.lowering.outline`): names, no scopes, no flow.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field

from ampcheck import program as p
from ampcheck.answers import Answers
from ampcheck.imports import may_be_local, module_file, search_folders, spelled, submodule
from ampcheck.library.models import ENGINE_NAMES, model_file, model_of
from ampcheck.lowering import lower
from ampcheck.lowering.outline import Outline, outline
from ampcheck.lowering.telling import bases_of, contributes, is_mute, own_attributes, tells
from ampcheck.program import Link
from ampcheck.source import Source, Unreadable, decode, read_bytes

__all__ = ["Project"]

# How far events are looked for through imports, and how many modules one file may draw in.
DEEPEST = 4
MOST_MODULES = 48
# A definition without events is taken in when it is short and can contribute to a step: a boundary's test, a loss, a
# constant.
SHORT = 15
# ... and not farther than this from the file itself.
NEAR = 2


@dataclass(slots=True)
class Project:
    """Files read so far.  One serves a whole check."""

    _files: dict[str, tuple[Source, Outline] | None] = field(default_factory=dict)
    _modules: dict[tuple[str, frozenset[str], frozenset[str]], p.Module | None] = field(default_factory=dict)
    _found: Answers[tuple[str, str], Link] = field(default_factory=Answers)
    _eventful: Answers[tuple[Link, int], bool] = field(default_factory=Answers)

    def program(self, source: Source) -> p.Program:
        """A file with what it depends on; raises Unreadable where the file itself is not Python."""
        self._files[spelled(source.path)] = source, outline(source)
        return _Assembly(self, source).run()

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
                source = decode(path, read_bytes(file))
                self._files[path] = source, outline(source)
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
                source, facts = known
                with suppress(Unreadable):
                    self._modules[key] = lower(source, facts, self.holders(path), wanted, hooks)
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
        model = model_of(dotted)
        # What stands beside a script comes before any library of that name, for Python as well.
        if model is not None and not module_file(os.path.dirname(path), names[0]):
            return self._chase(*model, frozenset()) if model[1] else Link(model[0])
        if p.Program.is_model(path) or not names or not may_be_local(path, names[0]):
            return None
        for folder in search_folders(path):
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


class _Assembly:
    """Puts a program together, breadth first from its main file."""

    def __init__(self, project: Project, source: Source) -> None:
        self.project = project
        self.source = source
        self.path = source.path
        self.home = spelled(source.path)
        self.wanted: dict[str, set[str]] = {}
        self.distance: dict[str, int] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.missing = ""

    def run(self) -> p.Program:
        project = self.project
        facts = project.outline(self.home)
        hooks = self._hooks(facts)
        main = lower(self.source, facts, project.holders(self.home), hooks=hooks)
        modules = {main.path: main}
        self._follow(main, self.home, 0)
        done: dict[str, frozenset[str]] = {}
        while pending := [path for path, names in self.wanted.items() if done.get(path) != frozenset(names)]:
            path = pending[0]
            names = done[path] = frozenset(self.wanted[path])
            module = project.module(path, names, hooks)
            if module is not None:
                modules[path] = module
                self._follow(module, path, self.distance[path])
        return p.Program(main, modules, self.links, self.missing)

    def _hooks(self, facts: Outline) -> frozenset[str]:
        """The attributes of ``self`` by which the file's classes work together with base classes of other files."""
        hooks: set[str] = set()
        seen: set[Link] = set()
        path = self.home
        pending = [(path, piece) for piece in facts.pieces if piece.is_class]
        while pending:
            path, piece = pending.pop()
            for base in bases_of(piece):
                top, _, rest = base.partition(".")
                origin = self.project.outline(path).imports.get(top)
                if not rest:
                    link = self.project.named(path, top)
                else:
                    link = self.project.find(path, f"{origin}.{rest}") if origin else None
                if link is None or not link.name or link in seen:
                    continue
                seen.add(link)
                parent = self.project.outline(link.path).exports.get(link.name)
                if parent is not None and parent.is_class:
                    pending.append((link.path, parent))
        if all(link.path == self.home for link in seen):
            return frozenset()
        for piece in facts.pieces:
            if piece.is_class:
                hooks |= own_attributes(piece)
        for link in seen:
            hooks |= own_attributes(self.project.outline(link.path).exports[link.name])
        return frozenset(hooks | {"__wraps__"})

    def _follow(self, module: p.Module, path: str, distance: int) -> None:
        """Resolve what a module's kept statements mention of its imports."""
        imports: dict[str, str] = {}
        again: list[tuple[str, str]] = []  # ``except ImportError: from steps import clip``
        mentioned: set[str] = set()
        chains: set[str] = set()
        for node in p.walk(*module.body):
            if isinstance(node, p.Import):
                for name, dotted in node.names:
                    bound = name if name != "*" else f"*{dotted}"
                    if imports.setdefault(bound, dotted) != dotted:
                        again.append((bound, dotted))
        for node in p.walk(*module.body):
            if isinstance(node, p.Name):
                mentioned.add(node.id)
            elif isinstance(node, p.Constant) and isinstance(node.value, str):
                mentioned.add(node.value)  # an annotation in quotes
            elif isinstance(node, p.Attribute):
                chain = p.dotted(node, imports)
                if chain:
                    chains.add(chain)
        for name, dotted in (*imports.items(), *again):
            if name.startswith("*"):
                self._star(path, module.path, dotted, mentioned, distance)
            elif name in mentioned:
                self._want(path, module.path, dotted, distance)
        called = mentioned | {n.attr for n in p.walk(*module.body) if isinstance(n, p.Attribute)}
        called = {name.strip("_") for name in called}
        for name, dotted in ENGINE_NAMES.items():
            if name in called and not p.Program.is_model(path):
                self._want(path, module.path, dotted, distance)
        for chain in sorted(chains):
            self._want(path, module.path, chain, distance)

    def _star(self, path: str, shown: str, dotted: str, mentioned: set[str], distance: int) -> None:
        module = self.project.find(path, dotted)
        if module is None or module.name:
            return
        for name in sorted(mentioned):
            link = self.project.named(module.path, name)
            if link is not None and link.name and (link.path == self.home or self._take(link, distance)):
                self.links[shown, f"*{name}"] = self._seen_from_main(link)

    def _want(self, path: str, shown: str, dotted: str, distance: int) -> None:
        link = self.project.find(path, dotted)
        if link is None or (link.path == self.home and not link.name):
            return
        if link.name and link.path != self.home and not self._take(link, distance):
            return
        # Python has one module of a name: what the main file has loaded is what the others get.
        key = shown if dotted.startswith(".") else "", dotted
        self.links.setdefault(key, self._seen_from_main(link))

    def _seen_from_main(self, link: Link) -> Link:
        """A link as the program has it: the main file goes by the path that it was given with."""
        return Link(self.path, link.name) if link.path == self.home else link

    def _take(self, link: Link, distance: int) -> bool:
        if not self.project.takes_in(link, distance + 1):
            return False
        if link.path not in self.wanted:
            if len(self.wanted) >= MOST_MODULES:
                left_out = f"more than {MOST_MODULES} modules are imported: {link.path} was left out"
                self.missing = self.missing or left_out
                return False
            self.wanted[link.path] = set()
            self.distance[link.path] = distance + 1
        self.wanted[link.path].add(link.name)
        return True
