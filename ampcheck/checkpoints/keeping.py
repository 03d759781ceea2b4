"""Whether anything in a file hints that a loss scaler's state is kept, in whatever file and form."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from ampcheck.checkpoints.written import saves
from ampcheck.lowering.select import span
from ampcheck.running.naming import SCALER, names_scaler
from ampcheck.source import Source
from ampcheck.syntax import called, last_name

__all__ = ["keeps_scaler"]

STATE = frozenset({"state_dict", "load_state_dict", "get_scale_state"})
KEEPERS = re.compile(
    r"state|checkpoint|saver|snapshot|ckpt|load|resume|restore|register|^add_|stateful", re.IGNORECASE
)


def keeps_scaler(source: Source, scalers: Collection[str]) -> bool:
    """Whether a scaler's state is taken, restored, handed to something that saves, or named among what is saved.

    `scalers` are the texts of those that the file's runs have.  A file without a tree keeps none.
    """
    names = {s.split("[")[0].rsplit(".", 1)[-1] for s in scalers}

    def is_scaler(node: ast.expr) -> bool:
        name = last_name(node) if not isinstance(node, ast.Call) else ""
        return bool(name) and (name in names or names_scaler(name))

    nodes = list(_telling_nodes(source, names))
    returned = {id(n.value) for n in nodes if isinstance(n, ast.Return) and n.value is not None}
    bound = {id(n.value) for n in nodes if isinstance(n, ast.Assign)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in STATE:
                if is_scaler(owner) or last_name(owner) == "amp":
                    return True
            case ast.Dict(keys=keys, values=values):
                if any(isinstance(k, ast.Constant) and _is_key(k.value) for k in keys) or any(
                    map(is_scaler, values)
                ):
                    return True
            case ast.Subscript(slice=ast.Constant(value=key)) if _is_key(key):
                return True
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                loaded = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
                if loaded and id(node) not in returned | bound and any(map(is_scaler, items)):
                    return True
            case ast.Call() if _takes_over(called(node)):
                given = (*node.args, *(k.value for k in node.keywords))
                if any(map(is_scaler, given)) or any(_is_key(k.arg) for k in node.keywords):
                    return True
            case ast.Call(func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=key), *_]):
                if _is_key(key):
                    return True
    return False


def _telling_nodes(source: Source, names: Collection[str]) -> Iterator[ast.AST]:
    """The nodes of those top-level statements whose text speaks of a scaler or of apex at all."""
    telling = re.compile("|".join([SCALER.pattern, r"\bamp\b", *map(re.escape, names)]), re.IGNORECASE)
    for statement in source.tree.body if source.tree is not None else ():
        first, last = span(statement)
        if any(map(telling.search, source.lines[first - 1 : last])):
            yield from ast.walk(statement)


def _is_key(key: object) -> bool:
    return isinstance(key, str) and names_scaler(key)


def _takes_over(name: str) -> bool:
    """Whether a call may save what it is given, or pass it on to something that does."""
    return saves(name) or KEEPERS.search(name) is not None or name[:1].isupper()
