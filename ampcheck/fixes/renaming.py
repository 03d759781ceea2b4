"""AMP604: ``torch.cuda.amp.autocast()`` becomes ``torch.amp.autocast("cuda")``, with whatever import gave the name."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, candidate
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.syntax import Module
from ampcheck.requirements import Requirements, some_before

__all__ = ["rename"]

POSITIONS = {"autocast": ("enabled", "dtype", "cache_enabled")}
"""The parameters of the old names that stand elsewhere in the new ones."""

DECORATORS = ("custom_fwd", "custom_bwd")
SINCE = {"autocast": (1, 10), "GradScaler": (2, 3), "custom_fwd": (2, 4), "custom_bwd": (2, 4)}
"""The releases that have the new names first (torch/amp/__init__.py of each)."""
NAMES = frozenset({"autocast", "GradScaler", *DECORATORS})


class Splice(NamedTuple):
    """New text for a part of a line."""

    line: int
    start: int
    stop: int
    text: str


def rename(case: Case) -> Iterator[Candidate]:
    """Every use in the file that the same import serves."""
    event = case.record.event
    if not isinstance(event, ev.Deprecated):
        raise Cannot("it is not a deprecated name")
    module = case.place(event.site).module
    call = module.call(event.site)
    if call is None:
        raise Cannot("it is not a call")
    device = event.name.split(".")[1]
    head = module.text(call.func).split(".")[0]
    if head == "torch":
        draft = _spliced(module, list(_dotted(module, device)))
        yield candidate("use torch.amp", draft, doubt=_older(module))
        return
    statement, splice = _import(module, head, device)
    bound = {alias.asname or alias.name for alias in statement.names}
    called = {alias.asname or alias.name: alias.name for alias in statement.names}
    splices = [splice]
    for use, name in _uses(module, bound):
        splices += _arguments(module, use, called.get(name, name), device)
    yield candidate("use torch.amp", _spliced(module, splices), doubt=_older(module))


def _older(module: Module) -> str:
    """Why the project cannot use the new names yet: it says that it works with a torch that has none.

    A fix renames more than one name where one import gives them: the latest of those in the file decides.
    """
    path, mentioned = module.path, {_mentioned(node) for node in ast.walk(module.tree)}
    since = max(
        (release for name, release in SINCE.items() if name in mentioned), default=SINCE["custom_fwd"]
    )
    found = some_before(Requirements().of(path), since)
    if found is None or found.oldest is None:
        return ""
    oldest, first = (".".join(map(str, release)) for release in (found.oldest, since))
    where = os.path.relpath(found.path, os.path.dirname(os.path.abspath(path)))
    return f"{where} admits torch {oldest} ({found.text}), and the new name is there since {first}"


def _mentioned(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name
        case _:
            return ""


def _dotted(module: Module, device: str) -> Iterator[Splice]:
    """What is to be changed in the calls of ``torch.cuda.amp.autocast`` and the like."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        if name in NAMES and module.text(node.func).startswith(f"torch.{device}.amp."):
            (line, start), (last, stop) = module.start(node.func), module.end(node.func)
            if line != last:
                raise Cannot("the name fills several lines")
            yield Splice(line, start, stop, f"torch.amp.{name}")
            yield from _arguments(module, node, name, device)


def _spliced(module: Module, splices: Sequence[Splice]) -> Draft:
    draft = Draft.of(module)
    texts = {splice.line: module.lines[splice.line - 1] for splice in splices}
    for line, start, stop, text in sorted(set(splices), reverse=True):
        texts[line] = texts[line][: start - 1] + text + texts[line][stop - 1 :]
    for line, text in texts.items():
        draft = draft.replace(line, text)
    return draft


def _import(module: Module, head: str, device: str) -> tuple[ast.Import | ast.ImportFrom, Splice]:
    """The import that binds a name, and its new text."""
    old = f"torch.{device}.amp"
    imports = [
        statement
        for statement in ast.walk(module.tree)
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        if any((alias.asname or alias.name.split(".")[0]) == head for alias in statement.names)
    ]
    if len(imports) != 1:
        raise Cannot(f"`{head}` is imported in more than one way")
    statement = imports[0]
    if statement not in module.tree.body:
        raise Cannot(f"`{head}` is imported under a condition, perhaps for older versions of torch")
    alone = len(statement.names) == 1
    if isinstance(statement, ast.ImportFrom):
        if statement.module == old and {a.name for a in statement.names} <= NAMES:
            return statement, _word(module, statement, old, "torch.amp")
        if f"{statement.module}.amp" == old and alone:
            return statement, _word(module, statement, f"torch.{device}", "torch")
    elif alone and statement.names[0].name == old and statement.names[0].asname:
        return statement, _word(module, statement, old, "torch.amp")
    raise Cannot(f"`{head}` is imported together with names that torch.amp does not have")


def _word(module: Module, statement: ast.stmt, old: str, new: str) -> Splice:
    line, column = module.start(statement)
    at = module.lines[line - 1].find(old, column - 1)
    if at < 0:
        raise Cannot("the import fills several lines")
    return Splice(line, at + 1, at + 1 + len(old), new)


def _uses(module: Module, bound: set[str]) -> Iterator[tuple[ast.Call, str]]:
    """The calls through imported names, with the name called; raises `Cannot` where one is used otherwise."""
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Name) and node.id in bound):
            continue
        if not isinstance(node.ctx, ast.Load):
            raise Cannot(f"`{node.id}` is given another meaning at line {node.lineno}")
        user: ast.Name | ast.Attribute = node
        name = node.id
        parent = module.parent(user)
        if isinstance(parent, ast.Attribute):
            user, name, parent = parent, parent.attr, module.parent(parent)
            if name not in NAMES:
                raise Cannot(f"`{module.text(user)}` has no place in torch.amp")
        if isinstance(parent, ast.Call) and parent.func is user:
            yield parent, name
        elif not _is_annotation(module, user):
            raise Cannot(f"line {node.lineno} uses `{module.text(user)}` without calling it")


def _is_annotation(module: Module, node: ast.AST) -> bool:
    """Whether a name stands in an annotation: the classes are subclasses of the new ones, no device is needed."""
    for around in module.above(node):
        if isinstance(around, (ast.arg, ast.AnnAssign)):
            return node is not getattr(around, "value", None)
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return around.returns is node
        if not isinstance(around, (ast.BinOp, ast.Subscript, ast.Tuple)):
            return False
        node = around
    return False


def _arguments(module: Module, call: ast.Call, name: str, device: str) -> Iterator[Splice]:
    """The device in front, and keywords for what was given by position and would move."""
    if any(isinstance(a, ast.Starred) for a in call.args):
        raise Cannot("the arguments are given as a list")
    line, column, stop = _opening(module, call)
    ends = not module.lines[line - 1][column - 1 :].strip()
    more = ("," if ends else ", ") if call.args or call.keywords else ""
    if name in DECORATORS:
        if call.args:
            raise Cannot(f"`{name}` is called on a function")
        yield Splice(line, column, stop, f'device_type="{device}"{more}')
        return
    positions = POSITIONS.get(name, ())
    first = module.start(call.args[0]) if call.args else (0, 0)
    keyword = f"{positions[0]}=" if call.args and positions and first == (line, column) else ""
    yield Splice(line, column, stop, f'"{device}"{more}{keyword}')
    for argument, parameter in zip(call.args, positions, strict=False):
        if module.start(argument) != (line, column):
            at, start = module.start(argument)
            yield Splice(at, start, start, f"{parameter}=")


def _opening(module: Module, call: ast.Call) -> tuple[int, int, int]:
    """The empty place just behind the opening bracket of a call."""
    line, column = module.end(call.func)
    at = module.lines[line - 1].find("(", column - 1)
    if at < 0:
        raise Cannot("the call is written in a way that is not rewritten")
    return line, at + 2, at + 2
