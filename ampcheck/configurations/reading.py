"""Finds the configurations of one source file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ampcheck.configurations.answers import Configuration, Configurations, Problem
from ampcheck.configurations.files import beside, find, load
from ampcheck.configurations.meaning import (
    accelerate,
    accelerator,
    arguments,
    deepspeed,
    is_accelerate,
    is_deepspeed,
)
from ampcheck.events import Site
from ampcheck.source import Source
from ampcheck.syntax import called, last_name, site_of

__all__ = ["configurations_of"]

# A file that holds none of these needs no look at files around it.
TOKENS = ("deepspeed", "Accelerator", "TrainingArguments", "SFTConfig", "zero_optimization")
ARGUMENTS = ("TrainingArguments", "SFTConfig", "DPOConfig", "PPOConfig", "GRPOConfig")


def configurations_of(source: Source) -> Configurations:
    """The configurations that a file holds or names, and those that lie beside it."""
    if source.tree is None or not any(token in source.text for token in TOKENS):
        return Configurations()
    reader = _Reader(source, source.tree)
    found = tuple(reader.found())
    if any(c.kind == "accelerator" for c in found) or "Accelerator" in source.text:
        found += tuple(reader.around(found))
    return Configurations(found, tuple(reader.problems))


class _Reader:
    """One file's literals, by the names that they are bound to."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.path, self.tree = source.path, tree
        self.lines = source.lines
        self.problems: list[Problem] = []
        self.bound: dict[str, ast.expr] = {}
        assigned: Counter[str] = Counter()
        changed = {_stored(n) for n in ast.walk(tree)} - {""}
        self.altered: set[int] = set()
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[target], value=value) if last_name(target):
                    name = last_name(target)
                    assigned[name] += 1
                    if isinstance(target, ast.Name):
                        self.bound[name] = value
                    if name in changed:
                        self.altered.add(id(value))
                case ast.arg(arg=name):
                    assigned[name] += 2  # whatever its caller gives
        self.bound = {name: value for name, value in self.bound.items() if assigned[name] == 1}
        # A class of this file's own is none of the library's, unless it inherits from it.
        self.namesakes = {
            n.name
            for n in ast.walk(tree)
            if isinstance(n, ast.ClassDef) and not any(last_name(b).endswith(ARGUMENTS) for b in n.bases)
        }

    def found(self) -> Iterator[Configuration]:
        """The configurations in the code and in the files it names, each one once."""
        seen: set[int | str] = set()
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        count = Counter(map(called, calls))
        for node in calls:
            name = called(node)
            keywords = {k.arg: k.value for k in node.keywords if k.arg}
            owner = ""
            if name in self.namesakes:
                continue
            if name.endswith(ARGUMENTS):
                owner = name if count[name] == 1 else f"the {name} in line {node.lineno}"
                yield arguments(owner, self.path, self._site(node), self._values(keywords))
            elif name == "Accelerator":
                owner = name
                yield accelerator(self.path, self._site(node), self._values(keywords))
            for key in ("deepspeed", "config", "config_params", "hf_ds_config", "deepspeed_config"):
                value = keywords.get(key)
                if value is None or (key == "config" and name != "initialize"):
                    continue
                within = owner if key == "deepspeed" else "Accelerator" if name == "DeepSpeedPlugin" else ""
                yield from self._given(value, within, seen)
        for display in [
            n for n in ast.walk(self.tree) if isinstance(n, ast.Dict) and id(n) not in seen | self.altered
        ]:
            literal = self._literal(display)
            if is_deepspeed(literal) and len(literal) > 1:
                yield deepspeed("the DeepSpeed configuration", self.path, self._site(display), literal)

    def _given(self, value: ast.expr, within: str, seen: set[int | str]) -> Iterator[Configuration]:
        """A configuration that is given to an engine: a dict, or the path of a file."""
        site = self._site(value)
        node = self.bound.get(value.id, value) if isinstance(value, ast.Name) else value
        if isinstance(node, ast.Dict) and id(node) not in seen:
            seen.add(id(node))
            if id(node) not in self.altered:
                literal = self._literal(node)
                yield deepspeed("the DeepSpeed configuration", self.path, self._site(node), literal, within)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in seen:
            seen.add(node.value)
            path = find(self.path, node.value) if node.value.endswith(".json") else None
            if path is None:
                return
            content = load(path)
            if isinstance(content, Problem):
                self.problems.append(content)
            else:
                yield deepspeed(node.value, path, site, content, within)

    def around(self, found: tuple[Configuration, ...]) -> Iterator[Configuration]:
        """Accelerate's files beside the code; what is broken there is none of our business."""
        known = {c.path for c in found}
        for path in beside(self.path):
            content = load(path)
            if isinstance(content, Problem) or not is_accelerate(content):
                continue
            one = accelerate(path, content)
            yield one
            inner = content.get("deepspeed_config")
            name = inner.get("deepspeed_config_file") if isinstance(inner, dict) else None
            file = find(path, name) if isinstance(name, str) and name.endswith(".json") else None
            if file is not None and file not in known:
                more = load(file)
                if not isinstance(more, Problem):
                    yield deepspeed(name or "", file, None, more, one.owner)

    def _values(self, keywords: Mapping[str, ast.expr]) -> dict[str, Any]:
        return {name: value for name, node in keywords.items() if (value := self._value(node)) is not None}

    def _literal(self, node: ast.Dict) -> dict[str, Any]:
        """What of a dict display is literal, nested dicts included."""
        return {
            key.value: value
            for key, entry in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
            if (value := self._value(entry)) is not None
        }

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            node = self.bound.get(node.id, node)
        if id(node) in self.altered:
            return None
        if isinstance(node, ast.Dict):
            return self._literal(node)
        return node.value if isinstance(node, ast.Constant) else None

    def _site(self, node: ast.expr) -> Site:
        return site_of(node, self.path, self.lines)


def _stored(node: ast.AST) -> str:
    """The name of a dict that is changed after it was built: ``config["fp16"]["enabled"] = args.fp16``."""
    match node:
        case ast.Subscript(ctx=ast.Store(), value=value):
            return last_name(value)
        case ast.Call(func=ast.Attribute(value=value, attr="update" | "setdefault")):
            return last_name(value)
        case ast.AugAssign(target=target):
            return last_name(target)
        case _:
            return ""
