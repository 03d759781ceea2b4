"""Where a file says how many items a micro-batch has, and how many micro-batches a window has: by line."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ampcheck.events import Site
from ampcheck.running.naming import names_window
from ampcheck.source import Source
from ampcheck.syntax import called, last_name, site_of

__all__ = ["Size", "Sizes", "Values", "sizes_of"]

BATCH = re.compile(
    r"^(train_|micro_|per_(device|gpu)_(train_)?|train_micro_)?(batch_?size|bs|mbs)(_per_gpu)?$",
    re.IGNORECASE,
)
EVALUATES = re.compile(r"val|test|eval|dev_|infer|sampl", re.IGNORECASE)
MOST = 3
"""How many places of a size are shown."""


@dataclass(frozen=True, slots=True)
class Size:
    """One place that sets a size: as the code has it, with its value where the file tells it, and who gets it."""

    place: Site
    text: str
    owner: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """What sets b and K in a file, as far as its text shows."""

    batches: tuple[Size, ...] = ()
    windows: tuple[Size, ...] = ()


def sizes_of(source: Source) -> Sizes:
    """The sizes of one file: b as loaders get it, else by its name; K by its name, where it is a number."""
    if source.tree is None:
        return Sizes()
    values = Values(source.tree)
    given = tuple(_given(source, source.tree, values))[:MOST]
    named = given or tuple(_named(source, source.tree, lambda name: BATCH.match(name) is not None))[:MOST]
    return Sizes(named, tuple(_named(source, source.tree, names_window))[:MOST])


class Values:
    """What names stand for where the file itself says so: constants, and defaults of command-line options."""

    def __init__(self, tree: ast.Module) -> None:
        self.constants: dict[str, object] = {}
        self.defaults: dict[str, object] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                self.constants.setdefault(last_name(node.targets[0]), node.value.value)
            elif isinstance(node, ast.Call) and called(node) == "add_argument":
                for name, default in _option(node):
                    self.defaults.setdefault(name, default.value)

    def spelled(self, node: ast.expr) -> str:
        """An expression as the code has it, with its value where the file tells it."""
        text = ast.unparse(node)
        if isinstance(node, ast.Name) and node.id in self.constants:
            return f"{text} = {self.constants[node.id]}"
        if isinstance(node, ast.Name | ast.Attribute) and last_name(node) in self.defaults:
            return f"{text} (default {self.defaults[last_name(node)]})"
        return text if len(text) <= 40 else f"{text[:38]} …"


def _option(node: ast.Call) -> Iterator[tuple[str, ast.Constant]]:
    """The names of a command-line option with its default."""
    default = next((k.value for k in node.keywords if k.arg == "default"), None)
    for argument in node.args:
        if (
            isinstance(argument, ast.Constant)
            and isinstance(argument.value, str)
            and isinstance(default, ast.Constant)
        ):
            yield argument.value.lstrip("-").replace("-", "_"), default


def _given(source: Source, tree: ast.Module, values: Values) -> Iterator[Size]:
    """What loaders and settings are given as the number of items, but for those that evaluate."""
    targets = {id(n.value): last_name(n.targets[0]) for n in ast.walk(tree) if isinstance(n, ast.Assign)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
        size = next((k.value for k in node.keywords if k.arg and BATCH.match(k.arg)), None)
        if size is None and called(node) == "DataLoader" and len(node.args) > 1:
            size = node.args[1]
        owner = targets.get(id(node), "") or called(node)
        data = " ".join(ast.unparse(argument) for argument in node.args[:1])
        if (
            size is None
            or called(node) == "add_argument"
            or EVALUATES.search(f"{owner} {called(node)} {data}")
        ):
            continue
        yield Size(site_of(size, source.path, source.lines), values.spelled(size), owner)


def _named(source: Source, tree: ast.Module, wanted: Callable[[str], bool]) -> Iterator[Size]:
    """Numbers that a name is bound to: constants, defaults of parameters and of command-line options."""
    found: list[tuple[ast.expr, str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            found.append((node.value, last_name(node.targets[0]), "set here"))
        elif isinstance(node, ast.Call) and called(node) == "add_argument":
            found += [(default, name, "an option's default") for name, default in _option(node)]
        elif isinstance(node, ast.FunctionDef):
            parameters = [*node.args.posonlyargs, *node.args.args]
            pairs = zip(reversed(parameters), reversed(node.args.defaults), strict=False)
            only = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            found += [(d, a.arg, f"a default of {node.name}") for a, d in (*pairs, *only) if d is not None]
    for value, name, owner in found:
        number = isinstance(value, ast.Constant) and type(value.value) is int and value.value > 0
        if number and wanted(name):
            yield Size(site_of(value, source.path, source.lines), f"{name} = {ast.unparse(value)}", owner)
