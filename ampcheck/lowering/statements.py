"""libcst statements to core statements, one small method a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import libcst as cst

from ampcheck import program as p
from ampcheck.lowering.expressions import BINARY, Expressions
from ampcheck.lowering.patterns import test_of

__all__ = ["Statements"]


class Statements(Expressions):
    """Lowers the statements of one segment."""

    def block(self, body: cst.BaseSuite | Sequence[cst.CSTNode]) -> tuple[p.Stmt, ...]:
        """The core statements of a suite."""
        nodes: Sequence[cst.CSTNode] = body.body if isinstance(body, cst.BaseSuite) else body
        return tuple(self._statements(nodes))

    def _statements(self, nodes: Sequence[cst.CSTNode]) -> Iterator[p.Stmt]:
        for node in nodes:
            if isinstance(node, cst.SimpleStatementLine):
                yield from self._statements(node.body)
                continue
            case = CASES.get(type(node))
            if case is not None:
                yield case(self, node)
            elif isinstance(node, cst.Match):
                yield from self._match(node)

    def _expression(self, node: cst.Expr) -> p.Stmt:
        return p.ExprStmt(self.site(node), self.expr(node.value))

    def _assign(self, node: cst.Assign) -> p.Stmt:
        targets = tuple(self.expr(t.target) for t in node.targets)
        return p.Assign(self.site(node), targets, self.expr(node.value))

    def _annotated(self, node: cst.AnnAssign) -> p.Stmt:
        annotation = self.expr(node.annotation.annotation)
        return p.Assign(self.site(node), (self.expr(node.target),), self.maybe(node.value), annotation)

    def _augmented(self, node: cst.AugAssign) -> p.Stmt:
        operator = BINARY[type(node.operator).__name__.removesuffix("Assign")]
        return p.AugAssign(self.site(node), self.expr(node.target), operator, self.expr(node.value))

    def _if(self, node: cst.If) -> p.Stmt:
        orelse: tuple[p.Stmt, ...] = ()
        if isinstance(node.orelse, cst.If):
            orelse = (self._if(node.orelse),)
        elif isinstance(node.orelse, cst.Else):
            orelse = self.block(node.orelse.body)
        return p.If(self.site(node), self.expr(node.test), self.block(node.body), orelse)

    def _else(self, node: cst.Else | None) -> tuple[p.Stmt, ...]:
        return self.block(node.body) if node is not None else ()

    def _for(self, node: cst.For) -> p.Stmt:
        target, iterable = self.expr(node.target), self.expr(node.iter)
        return p.For(self.site(node), target, iterable, self.block(node.body), self._else(node.orelse))

    def _while(self, node: cst.While) -> p.Stmt:
        return p.While(self.site(node), self.expr(node.test), self.block(node.body), self._else(node.orelse))

    def _with(self, node: cst.With) -> p.Stmt:
        items = tuple(
            (self.expr(i.item), self.maybe(i.asname.name if i.asname else None)) for i in node.items
        )
        return p.With(self.site(node), items, self.block(node.body))

    def _try(self, node: cst.Try | cst.TryStar) -> p.Stmt:
        handlers = tuple(self.block(h.body) for h in node.handlers)
        final = self.block(node.finalbody.body) if node.finalbody else ()
        return p.Try(self.site(node), self.block(node.body), handlers, self._else(node.orelse), final)

    def _return(self, node: cst.Return) -> p.Stmt:
        return p.Return(self.site(node), self.maybe(node.value))

    def _raise(self, node: cst.Raise) -> p.Stmt:
        return p.Raise(self.site(node), self.maybe(node.exc))

    def _assert(self, node: cst.Assert) -> p.Stmt:
        return p.Assert(self.site(node), self.expr(node.test))

    def _delete(self, node: cst.Del) -> p.Stmt:
        target = self.expr(node.target)
        targets = target.items if isinstance(target, p.Display) else (target,)
        return p.Delete(self.site(node), targets)

    def _import(self, node: cst.Import) -> p.Stmt:
        names = []
        for alias in node.names:
            dotted = alias.evaluated_name
            bound = alias.evaluated_alias
            names.append((bound, dotted) if bound else (dotted.split(".")[0], dotted.split(".")[0]))
        return p.Import(self.site(node), tuple(names))

    def _import_from(self, node: cst.ImportFrom) -> p.Stmt:
        base = _dotted(node.module) if node.module else ""
        prefix = "." * len(node.relative) + base
        joined = prefix + ("" if prefix.endswith(".") or not prefix else ".")
        if isinstance(node.names, cst.ImportStar):
            return p.Import(self.site(node), (("*", prefix),))
        names = tuple((a.evaluated_alias or a.evaluated_name, joined + a.evaluated_name) for a in node.names)
        return p.Import(self.site(node), names)

    def _function(self, node: cst.FunctionDef) -> p.Stmt:
        body = self.block(node.body)
        decorators = tuple(self.expr(d.decorator) for d in node.decorators)
        generator = any(_yields(statement) for statement in body)
        site = self.site(node.name)
        return p.FunctionDef(site, node.name.value, self.parameters(node.params), body, decorators, generator)

    def _class(self, node: cst.ClassDef) -> p.Stmt:
        bases = tuple(self.expr(a.value) for a in node.bases)
        decorators = tuple(self.expr(d.decorator) for d in node.decorators)
        return p.ClassDef(self.site(node.name), node.name.value, bases, self.block(node.body), decorators)

    def _match(self, node: cst.Match) -> Iterator[p.Stmt]:
        """A match statement is a chain of ifs over tests of its subject; captures are not bound."""
        subject = self.expr(node.subject)
        chain: tuple[p.Stmt, ...] = ()
        for case in reversed(node.cases):
            test = test_of(case.pattern, subject, self)
            if case.guard is not None:
                guard = self.expr(case.guard)
                test = guard if test is None else p.BoolOp(guard.site, "and", test, guard)
            body = self.block(case.body)
            chain = body if test is None else (p.If(test.site, test, body, chain),)
        yield from chain


def _dotted(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def _yields(node: p.Node) -> bool:
    """Whether a yield of this very function is in a node (not one of a function inside it)."""
    if isinstance(node, p.Yield):
        return True
    if isinstance(node, (p.FunctionDef, p.ClassDef, p.Lambda)):
        return False
    return any(_yields(child) for child in p.children(node))


CASES: dict[type, Callable[[Statements, Any], p.Stmt]] = {
    cst.Expr: Statements._expression,
    cst.Assign: Statements._assign,
    cst.AnnAssign: Statements._annotated,
    cst.AugAssign: Statements._augmented,
    cst.If: Statements._if,
    cst.For: Statements._for,
    cst.While: Statements._while,
    cst.With: Statements._with,
    cst.Try: Statements._try,
    cst.TryStar: Statements._try,
    cst.Return: Statements._return,
    cst.Break: lambda self, node: p.Break(self.site(node)),
    cst.Continue: lambda self, node: p.Continue(self.site(node)),
    cst.Raise: Statements._raise,
    cst.Assert: Statements._assert,
    cst.Del: Statements._delete,
    cst.Import: Statements._import,
    cst.ImportFrom: Statements._import_from,
    cst.FunctionDef: Statements._function,
    cst.ClassDef: Statements._class,
}
