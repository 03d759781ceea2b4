"""Where a file says how many items a micro-batch has: ``batch_size`` and its relatives, by line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck.events import Site
from ampcheck.source import Source
from ampcheck.syntax import called, last_name, site_of

__all__ = ["Batch", "Values", "batches"]

KEYWORDS = ("batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "micro_batch_size")
EVALUATES = re.compile(r"val|test|eval|dev_|infer|sampl", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Batch:
    """One place that sets the number of items: `size` as far as it is known, `text` as the code has it.

    `evaluates`: by its name it is meant for validation or a test.
    """

    place: Site
    size: str
    text: str
    evaluates: bool = False


class Values:
    """What names stand for where the file itself says so: constants, and defaults of command-line options."""

    def __init__(self, tree: ast.Module) -> None:
        self.constants: dict[str, object] = {}
        self.defaults: dict[str, object] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                    self.constants.setdefault(name, value)
                case ast.Call(func=ast.Attribute(attr="add_argument"), args=[*names], keywords=keywords):
                    given = {k.arg: k.value for k in keywords}
                    default = given.get("default")
                    if isinstance(default, ast.Constant):
                        for name in _options(names):
                            self.defaults.setdefault(name, default.value)

    def spelled(self, node: ast.expr) -> str:
        """An expression as the code has it, with its value where the file tells it."""
        text = ast.unparse(node)
        if isinstance(node, ast.Constant):
            return text
        name = last_name(node)
        if isinstance(node, ast.Name) and name in self.constants:
            return f"{text} = {self.constants[name]}"
        if name in self.defaults:
            return f"{text} (default {self.defaults[name]})"
        return text if len(text) <= 40 else f"{text[:38]} …"


def _options(names: list[ast.expr]) -> Iterator[str]:
    for node in names:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.lstrip("-").replace("-", "_")


def batches(source: Source) -> Iterator[Batch]:
    """The places of a file that set the size of a micro-batch, in order."""
    if source.tree is None:
        return
    values, lines = Values(source.tree), source.lines
    targets = {
        id(node.value): last_name(node.targets[0])
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
    }
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
        given = next((k.value for k in node.keywords if k.arg in KEYWORDS), None)
        if given is None and called(node) == "DataLoader" and len(node.args) > 1:
            given = node.args[1]
        if given is None or called(node) == "add_argument":
            continue
        what = targets.get(id(node), "")
        site = site_of(given, source.path, lines)
        size = values.spelled(given)
        text = f"{what or called(node)}: {size}"
        data = " ".join(ast.unparse(arg) for arg in node.args[:1])
        yield Batch(site, size, text, EVALUATES.search(f"{what} {called(node)} {data}") is not None)
