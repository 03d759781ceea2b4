"""libcst expressions to core expressions, one small method a node."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from ampcheck import program as p
from ampcheck.events import Site

__all__ = ["Expressions"]

BINARY = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "FloorDivide": "//",
    "Modulo": "%",
    "Power": "**",
    "MatrixMultiply": "@",
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "LeftShift": "<<",
    "RightShift": ">>",
}
COMPARE = {
    "LessThan": "<",
    "LessThanEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanEqual": ">=",
    "Equal": "==",
    "NotEqual": "!=",
    "Is": "is",
    "IsNot": "is not",
    "In": "in",
    "NotIn": "not in",
}
UNARY = {"Not": "not", "Minus": "-", "Plus": "+", "BitInvert": "~"}


class Expressions:
    """Lowers expressions of one segment; `offset` is added to its line numbers."""

    def __init__(self, path: str, positions: Mapping[cst.CSTNode, Any], offset: int) -> None:
        self.path = path
        self.positions = positions
        self.offset = offset
        self._cases: dict[type, Callable[[Any], p.Expr]] = {
            cst.Name: lambda n: (
                p.Name(self.site(n), n.value)
                if n.value not in ("True", "False", "None")
                else p.Constant(self.site(n), {"True": True, "False": False, "None": None}[n.value])
            ),
            cst.Integer: self._number,
            cst.Float: self._number,
            cst.Imaginary: self._number,
            cst.SimpleString: lambda n: p.Constant(self.site(n), n.evaluated_value),
            cst.ConcatenatedString: self._concatenated,
            cst.FormattedString: self._formatted,
            cst.Ellipsis: lambda n: p.Constant(self.site(n), ...),
            cst.Attribute: lambda n: p.Attribute(self.site(n), self.expr(n.value), n.attr.value),
            cst.Call: self._call,
            cst.Subscript: self._subscript,
            cst.BinaryOperation: self._binary,
            cst.UnaryOperation: lambda n: p.Unary(
                self.site(n), UNARY[type(n.operator).__name__], self.expr(n.expression)
            ),
            cst.BooleanOperation: self._boolean,
            cst.Comparison: self._comparison,
            cst.IfExp: lambda n: p.IfExp(
                self.site(n), self.expr(n.test), self.expr(n.body), self.expr(n.orelse)
            ),
            cst.Tuple: lambda n: self._display(n, "tuple"),
            cst.List: lambda n: self._display(n, "list"),
            cst.Set: lambda n: self._display(n, "set"),
            cst.Dict: self._dict,
            cst.Lambda: lambda n: p.Lambda(self.site(n), self.parameters(n.params), self.expr(n.body)),
            cst.NamedExpr: lambda n: p.NamedExpr(self.site(n), self.expr(n.target), self.expr(n.value)),
            cst.Await: lambda n: self.expr(n.expression),
            cst.Yield: self._yield,
            cst.GeneratorExp: lambda n: self._comprehension(n, "generator"),
            cst.ListComp: lambda n: self._comprehension(n, "list"),
            cst.SetComp: lambda n: self._comprehension(n, "set"),
            cst.DictComp: lambda n: self._comprehension(n, "dict"),
        }

    def site(self, node: cst.CSTNode) -> Site:
        """Where a node stands, parentheses around it left out."""
        span: CodeRange = self.positions[node]
        start, end = span.start, span.end
        return Site(
            self.path, start.line + self.offset, start.column + 1, end.line + self.offset, end.column + 1
        )

    def expr(self, node: cst.BaseExpression) -> p.Expr:
        """The core expression of a node."""
        case = self._cases.get(type(node))
        return case(node) if case else p.Opaque(self.site(node))

    def maybe(self, node: cst.BaseExpression | None) -> p.Expr | None:
        """The core expression of a node that may be absent."""
        return None if node is None else self.expr(node)

    def parameters(self, node: cst.Parameters) -> tuple[p.Parameter, ...]:
        """The parameters of a function or lambda, in order."""
        found = [self._parameter(q) for q in (*node.posonly_params, *node.params)]
        if isinstance(node.star_arg, cst.Param):
            found.append(self._parameter(node.star_arg, "*"))
        elif node.kwonly_params:
            found.append(p.Parameter("", star="*"))
        found += [self._parameter(q) for q in node.kwonly_params]
        if node.star_kwarg is not None:
            found.append(self._parameter(node.star_kwarg, "**"))
        return tuple(found)

    def _parameter(self, node: cst.Param, star: str = "") -> p.Parameter:
        annotation = node.annotation.annotation if node.annotation else None
        return p.Parameter(node.name.value, self.maybe(node.default), self.maybe(annotation), star)

    def _number(self, node: cst.Integer | cst.Float | cst.Imaginary) -> p.Expr:
        return p.Constant(self.site(node), ast.literal_eval(node.value))

    def _concatenated(self, node: cst.ConcatenatedString) -> p.Expr:
        value = node.evaluated_value
        return p.Constant(self.site(node), value) if value is not None else p.Opaque(self.site(node))

    def _formatted(self, node: cst.FormattedString) -> p.Expr:
        parts = (q.expression for q in node.parts if isinstance(q, cst.FormattedStringExpression))
        return p.Opaque(self.site(node), tuple(self.expr(q) for q in parts))

    def _call(self, node: cst.Call) -> p.Expr:
        arguments = tuple(
            p.Keyword(self.expr(a.value), a.keyword.value if a.keyword else "", a.star) for a in node.args
        )
        return p.Call(self.site(node), self.expr(node.func), arguments)

    def _subscript(self, node: cst.Subscript) -> p.Expr:
        value, site = self.expr(node.value), self.site(node)
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            return p.Subscript(site, value, self.expr(node.slice[0].slice.value))
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice):
            span = node.slice[0].slice
            lower, upper = self.maybe(span.lower), self.maybe(span.upper)
            return p.Subscript(site, value, p.Slice(site, lower, upper, self.maybe(span.step)))
        operands: list[p.Expr] = []
        for element in node.slice:
            part = element.slice
            if isinstance(part, cst.Index):
                operands.append(self.expr(part.value))
            elif isinstance(part, cst.Slice):
                operands += [self.expr(b) for b in (part.lower, part.upper, part.step) if b is not None]
        return p.Subscript(site, value, p.Opaque(site, tuple(operands)))

    def _binary(self, node: cst.BinaryOperation) -> p.Expr:
        operator = BINARY[type(node.operator).__name__]
        return p.Binary(self.site(node), operator, self.expr(node.left), self.expr(node.right))

    def _boolean(self, node: cst.BooleanOperation) -> p.Expr:
        operator = "and" if isinstance(node.operator, cst.And) else "or"
        return p.BoolOp(self.site(node), operator, self.expr(node.left), self.expr(node.right))

    def _comparison(self, node: cst.Comparison) -> p.Expr:
        site, left = self.site(node), self.expr(node.left)
        result: p.Expr | None = None
        for target in node.comparisons:
            right = self.expr(target.comparator)
            pair = p.Compare(site, COMPARE[type(target.operator).__name__], left, right)
            result = pair if result is None else p.BoolOp(site, "and", result, pair)
            left = right
        assert result is not None
        return result

    def _element(self, node: cst.BaseElement) -> p.Expr:
        value = self.expr(node.value)
        return p.Starred(self.site(node.value), value) if isinstance(node, cst.StarredElement) else value

    def _display(self, node: cst.Tuple | cst.List | cst.Set, kind: str) -> p.Expr:
        return p.Display(self.site(node), kind, tuple(self._element(e) for e in node.elements))

    def _dict(self, node: cst.Dict) -> p.Expr:
        items: list[tuple[p.Expr | None, p.Expr]] = []
        for element in node.elements:
            key = self.expr(element.key) if isinstance(element, cst.DictElement) else None
            items.append((key, self.expr(element.value)))
        return p.DictDisplay(self.site(node), tuple(items))

    def _yield(self, node: cst.Yield) -> p.Expr:
        if isinstance(node.value, cst.From):
            return p.Yield(self.site(node), self.expr(node.value.item), delegate=True)
        return p.Yield(self.site(node), self.maybe(node.value))

    def _comprehension(self, node: Any, kind: str) -> p.Expr:
        loops = tuple(self._loops(node.for_in))
        if kind == "dict":
            return p.Comprehension(self.site(node), kind, self.expr(node.value), loops, self.expr(node.key))
        return p.Comprehension(self.site(node), kind, self.expr(node.elt), loops)

    def _loops(self, node: cst.CompFor | None) -> Iterable[tuple[p.Expr, p.Expr, tuple[p.Expr, ...]]]:
        while node is not None:
            yield self.expr(node.target), self.expr(node.iter), tuple(self.expr(c.test) for c in node.ifs)
            node = node.inner_for_in
