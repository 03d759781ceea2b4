"""A file with those definitions of other modules that its training step can depend on, as one `Program`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ampcheck import program as p
from ampcheck.implementing import Handed
from ampcheck.imports import spelled
from ampcheck.library.models import ENGINE_NAMES
from ampcheck.lowering.telling import bases_of, own_attributes
from ampcheck.program import Link
from ampcheck.project import Project
from ampcheck.returns import Returns
from ampcheck.source import Source

__all__ = ["assemble", "hooks_of"]

# How many modules one file may draw in.
MOST_MODULES = 48


def assemble(project: Project, source: Source, handed: Sequence[Handed] = ()) -> p.Program:
    """A file with what it depends on; raises Unreadable where the file itself is not Python.

    `handed` are the objects that its functions get from elsewhere, where their classes are of the project.
    """
    project.take(source)
    return _Assembly(project, source, handed).run()


def hooks_of(project: Project, home: str) -> frozenset[str]:
    """The attributes of ``self`` by which a file's classes work together with base classes of other files."""
    facts = project.outline(home)
    hooks: set[str] = set()
    seen: set[Link] = set()
    path = home
    pending = [(path, piece) for piece in facts.pieces if piece.is_class]
    while pending:
        path, piece = pending.pop()
        for base in bases_of(piece):
            link = project.spelled_as(path, base)
            if link is None or not link.name or link in seen:
                continue
            seen.add(link)
            parent = project.outline(link.path).exports.get(link.name)
            if parent is not None and parent.is_class:
                pending.append((link.path, parent))
    if all(link.path == home for link in seen):
        return frozenset()
    for piece in facts.pieces:
        if piece.is_class:
            hooks |= own_attributes(piece)
    for link in seen:
        hooks |= own_attributes(project.outline(link.path).exports[link.name])
    return frozenset(hooks | {"__wraps__"})


class _Assembly:
    """Puts a program together, breadth first from its main file."""

    def __init__(self, project: Project, source: Source, handed: Sequence[Handed]) -> None:
        self.project = project
        self.handed = handed
        self.source = source
        self.path = source.path
        self.home = spelled(source.path)
        self.wanted: dict[str, set[str]] = {}
        self.distance: dict[str, int] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.networks: dict[tuple[str, str], Returns] = {}
        self.packages: set[str] = set()
        self.missing = ""

    def run(self) -> p.Program:
        project = self.project
        hooks = hooks_of(project, self.home)
        asked = {method for one in self.handed for method in one.methods}
        holders = project.holders(self.home) | asked
        main = project.readings.lowered(self.source, project.outline(self.home), holders, hooks=hooks)
        modules = {main.path: main}
        self._follow(main, self.home, 0)
        behind = {
            (one.parameter, one.annotation, one.attribute): tuple(self._behind(one)) for one in self.handed
        }
        done: dict[str, frozenset[str]] = {}
        while pending := [path for path, names in self.wanted.items() if done.get(path) != frozenset(names)]:
            path = pending[0]
            names = done[path] = frozenset(self.wanted[path])
            module = project.module(path, names, hooks)
            if module is not None:
                modules[path] = module
                self._follow(module, path, self.distance[path])
        return p.Program(
            main,
            modules,
            self.links,
            self.missing,
            networks=self.networks,
            handed=behind,
            packages=frozenset(self.packages),
        )

    def _follow(self, module: p.Module, path: str, distance: int) -> None:
        """Resolve what a module's kept statements mention of its imports."""
        for name in self.project.outline(path).exports:
            self._know(module.path, name, Link(path, name))
        imports: dict[str, str] = {}
        again: list[tuple[str, str]] = []  # ``except ImportError: from steps import clip``
        mentioned: set[str] = set()
        chains: set[str] = set()
        nodes = list(p.walk(*module.body))
        for node in nodes:
            if isinstance(node, p.Import):
                for name, dotted in node.names:
                    bound = name if name != "*" else f"*{dotted}"
                    if imports.setdefault(bound, dotted) != dotted:
                        again.append((bound, dotted))
        for node in nodes:
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
        called = mentioned | {n.attr for n in nodes if isinstance(n, p.Attribute)}
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
        if not p.Program.is_model(link.path):
            self.packages.add(dotted.split(".")[0])
        if link.name:
            self._know(shown if dotted.startswith(".") else "", dotted, link)
        if link.name and link.path != self.home and not self._take(link, distance):
            return
        # Python has one module of a name: what the main file has loaded is what the others get.
        key = shown if dotted.startswith(".") else "", dotted
        self.links.setdefault(key, self._seen_from_main(link))

    def _behind(self, handed: Handed) -> Iterator[Link]:
        """The classes that can stand behind an object, drawn in."""
        if handed.left_out:
            what = ".".join(filter(None, (handed.parameter, handed.attribute)))
            self.missing = self.missing or f"more classes than are tried can stand behind `{what}`"
        for link in handed.classes:
            if link.path == self.home or self._take(link, 0):
                yield self._seen_from_main(link)

    def _know(self, shown: str, name: str, link: Link) -> None:
        """Remember what a class's objects give back, if it is one whose objects are called."""
        returns = self.project.returns(link)
        if returns.tells:
            self.networks[shown, name] = returns

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
