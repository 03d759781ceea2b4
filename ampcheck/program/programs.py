"""A file with what it depends on."""

from __future__ import annotations

from dataclasses import dataclass, field

from ampcheck.events import Site
from ampcheck.own_names import OwnNames
from ampcheck.program.nodes import Node, Stmt
from ampcheck.returns import UNTOLD, Returns

__all__ = ["Link", "Module", "Program"]


@dataclass(slots=True, eq=False, repr=False)
class Module:
    """A lowered file: its statements and the source lines that texts are cut from."""

    path: str
    body: tuple[Stmt, ...]
    lines: tuple[str, ...]

    def text(self, node: Node) -> str:
        """The node's source on one line, with runs of white space folded."""
        return self.cut(node.site)

    def cut(self, site: Site) -> str:
        """The source at a site on one line."""
        if site.line == site.end_line:
            return self.lines[site.line - 1][site.column - 1 : site.end_column - 1]
        inner = self.lines[site.line : site.end_line - 1]
        first, last = self.lines[site.line - 1][site.column - 1 :], self.lines[site.end_line - 1]
        return " ".join(" ".join((first, *inner, last[: site.end_column - 1])).split())


@dataclass(frozen=True, slots=True)
class Link:
    """What an imported name stands for: a definition of another module, or that module itself (`name` is "")."""

    path: str
    name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Program:
    """A file with the modules of its project, and of library models, that it depends on.

    `links` resolves dotted names: (path of the importing file, name) for relative imports and star imports,
    ("", name) for absolute ones.
    `networks` says what the forward of a network gives back, by the file and the (dotted) name of its class there.
    `handed` names the classes that can stand behind what a function of the main file is handed, by parameter, its
    annotation and an attribute of it ("" for itself).  `packages` are the project's own, by their top-level names.
    `settings` are numbers that the project's configuration files give ("gradient_accumulation_steps", "zero_stage").
    `names` are what the project's settings say of its own wrappers.
    Library models have paths like ``<accelerate>``; `missing` says what was left out because a cap was reached.
    """

    main: Module
    modules: dict[str, Module] = field(default_factory=dict)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    missing: str = ""
    settings: dict[str, int] = field(default_factory=dict)
    names: OwnNames = field(default_factory=OwnNames)
    networks: dict[tuple[str, str], Returns] = field(default_factory=dict)
    handed: dict[tuple[str, str, str], tuple[Link, ...]] = field(default_factory=dict)
    packages: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.modules.setdefault(self.main.path, self.main)

    def link(self, path: str, dotted: str) -> Link | None:
        """What a dotted name means in a file, None where it is not of this program."""
        return self.links.get((path if dotted.startswith(".") else "", dotted))

    def returns(self, path: str, dotted: str) -> Returns:
        """What the objects of a class give back when they are called, the class by its name in a file."""
        own = self.networks.get((path, dotted))
        return own or self.networks.get(("", dotted), UNTOLD)

    def text(self, node: Node) -> str:
        """The source of a node of any of the modules."""
        return self.modules.get(node.site.path, self.main).text(node)

    @staticmethod
    def is_model(path: str) -> bool:
        """Whether a path names a library model."""
        return path.startswith("<")
