"""One-statement mutants of correct loops, made on their source.

A *training-step statement* is a statement on a line of its own, inside the loop over epochs, that zeroes,
divides, differentiates, unscales, clips, steps or updates.  It is deleted, doubled, swapped with its successor, or
moved to another place in that loop.  Where a framework runs the loop, each method that it calls is such a place;
what follows a method's return is none.  A mutant that would use a variable above its assignment is none either: Python
itself refuses it.  Equal sources are one mutant, under the first of its names.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

__all__ = ["LOOPS", "Mutant", "mutants_of"]

LOOPS: tuple[Path, ...] = tuple(sorted((Path(__file__).parent / "loops").glob("*.py")))

_EVENT = re.compile(
    r"\.(zero_grad|(manual_)?backward|unscale_|step|update)\(|clip_grad(_norm_|ients)\("
    r"|^loss_scaler\(|^loss = loss /"
)
_METHODS = ("training_step", "on_before_optimizer_step")  # called by a framework's own loop

_Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


@dataclass(frozen=True, slots=True)
class Mutant:
    """A loop with one statement changed: ``plain: delete `scaler.update()` `` and the source."""

    loop: str
    change: str
    source: str


@dataclass(frozen=True, slots=True)
class _Block:
    """An indented block of the loop: the text of its head and its statements."""

    head: str
    node: cst.IndentedBlock
    statements: tuple[_Statement, ...]


@functools.cache
def mutants_of(loop: Path) -> tuple[Mutant, ...]:
    """All mutants of one loop, by change; none equals the loop or another mutant."""
    module = cst.parse_module(loop.read_text())
    seen = {module.code}
    found = []
    for change, mutated in (c for place in _places(module) for c in _changes(module, tuple(_blocks(place)))):
        source = mutated.code
        if source not in seen and _assigns_before_use(source):
            seen.add(source)
            found.append(Mutant(loop.stem, change, source))
    return tuple(found)


def _changes(module: cst.Module, blocks: Sequence[_Block]) -> Iterator[tuple[str, cst.Module]]:
    """Each change by name: all deletions, doublings and swaps first, since some moves repeat a swap."""
    own = [
        (block, index)
        for block in blocks
        for index, statement in enumerate(block.statements)
        if isinstance(statement, cst.SimpleStatementLine) and _EVENT.search(_text(statement))
    ]
    for block, index in own:
        yield f"delete {_quoted(block, index)}", _Edit(gone=block.statements[index]).of(module)
    for block, index in own:
        edit = _Edit(new=block.statements[index], block=block.node, place=index + 1)
        yield f"double {_quoted(block, index)}", edit.of(module)
    for block, index in own:
        if index + 1 < len(block.statements) - _returns(block):
            change = f"swap {_quoted(block, index)} and {_quoted(block, index + 1)}"
            statement = block.statements[index]
            yield change, _Edit(statement, statement, block.node, index + 2).of(module)
    for block, index in own:
        for target in blocks:
            for place in range(len(target.statements) + (not _returns(target))):
                at_end = place == len(target.statements)
                where = f"the end of `{target.head}`" if at_end else f"before {_quoted(target, place)}"
                statement = block.statements[index]
                edit = _Edit(statement, statement, target.node, place)
                yield f"move {_quoted(block, index)} to {where}", edit.of(module)


def _places(module: cst.Module) -> list[cst.BaseCompoundStatement]:
    """The loop over epochs, the first `for` directly inside a function; else the methods of the module's class."""
    found: list[cst.BaseCompoundStatement] = []
    for statement in module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            for inner in statement.body.body:
                if isinstance(inner, cst.For):
                    return [inner]
                if isinstance(inner, cst.FunctionDef) and inner.name.value in _METHODS:
                    found.append(inner)
    if not found:
        raise ValueError("the module has no training loop")
    return found


def _blocks(statement: cst.BaseCompoundStatement) -> Iterator[_Block]:
    """The statement's block and those inside it, outermost first."""
    body = statement.body
    assert isinstance(body, cst.IndentedBlock)
    inside = tuple(s for s in body.body if isinstance(s, cst.SimpleStatementLine | cst.BaseCompoundStatement))
    yield _Block(_text(statement), body, inside)
    for inner in inside:
        if isinstance(inner, cst.BaseCompoundStatement):
            yield from _blocks(inner)


def _returns(block: _Block) -> bool:
    """Whether nothing that comes behind the block's last statement would run."""
    last = block.statements[-1]
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[0], cst.Return)


def _text(statement: cst.CSTNode) -> str:
    """A statement as people call it: its first line."""
    return cst.Module([]).code_for_node(statement).strip().splitlines()[0]


def _quoted(block: _Block, index: int) -> str:
    return f"`{_text(block.statements[index])}`"


@dataclass(frozen=True, slots=True)
class _Edit:
    """What happens to a module: a statement goes, and one comes before a place in a block."""

    gone: _Statement | None = None
    new: _Statement | None = None
    block: cst.IndentedBlock | None = None
    place: int = 0

    def of(self, module: cst.Module) -> cst.Module:
        return module.visit(_Editing(self))


class _Editing(cst.CSTTransformer):
    """Both halves in one pass: libcst builds every node anew, so that a second one would find nothing again."""

    def __init__(self, edit: _Edit) -> None:
        super().__init__()
        self.edit = edit

    def on_visit(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Module | cst.BaseCompoundStatement | cst.BaseSuite)  # no edit lies deeper

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        if original_node is self.edit.gone:
            return cst.RemoveFromParent()
        if original_node is self.edit.block:
            before = [s for s in self.edit.block.body[: self.edit.place] if s is not self.edit.gone]
            body = list(cst.ensure_type(updated_node, cst.IndentedBlock).body)
            body.insert(len(before), cst.ensure_type(self.edit.new, cst.SimpleStatementLine))
            return updated_node.with_changes(body=body)
        return updated_node


def _assigns_before_use(source: str) -> bool:
    """Whether no function uses a local variable on a line above all of its assignments."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        stores = {argument.arg: function.lineno for argument in function.args.args}
        for node in names:
            if isinstance(node.ctx, ast.Store):
                stores[node.id] = min(node.lineno, stores.get(node.id, node.lineno))
        for node in names:
            first = stores.get(node.id, 0)
            rebinds = first == node.lineno and _rebinds(function, node)
            if isinstance(node.ctx, ast.Load) and (node.lineno < first or rebinds):
                return False
    return True


def _rebinds(function: ast.FunctionDef, use: ast.Name) -> bool:
    """Whether the use stands in the very assignment that first binds its name (``loss = loss / window``)."""
    return any(
        isinstance(node, ast.Assign)
        and node.lineno == use.lineno
        and any(isinstance(t, ast.Name) and t.id == use.id for t in node.targets)
        for node in ast.walk(function)
    )
