"""What a network's ``forward`` gives back: read from its returns, by the standard library's cheap parse.

A step sees a network from the outside, so its layers are never run.  Whether the loss that it returns is an average
is all that a window needs to know of it, and that is decided by the last few statements of its ``forward``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ampcheck.library.torch import LOSSES
from ampcheck.returns import Reduction, Returns

__all__ = ["returns_of"]

# How far methods of the same class are followed.
DEEPEST = 3

# What is one number or tensor; None stands for ``None``.
One = Reduction | None
# A value: one, a tuple, named fields.
Shape = One | tuple[One, ...] | dict[str, One]
Names = dict[str, Shape]

# Methods that keep what a loss is.
KEEPING = frozenset(
    "float double half bfloat16 to cuda cpu type squeeze view reshape contiguous clone unsqueeze flatten".split()
)
COUNTS = frozenset("sum numel size count_nonzero".split())
# ... and those that keep a count what it is.
BOUNDED = frozenset("clamp clamp_min item float to".split())


def returns_of(cls: ast.ClassDef, imports: Mapping[str, str]) -> Returns:
    """What calling an object of a class gives back; `imports` maps names to their dotted origins."""
    reading = _Reading(cls, imports)
    return _as_returns(reading.method("forward", 0))


def _as_returns(shape: Shape) -> Returns:
    match shape:
        case None:
            return Returns()
        case tuple():
            return Returns(items=tuple(how or "unknown" for how in shape))
        case dict():
            return Returns(fields={name: how or "unknown" for name, how in shape.items()})
        case _:
            return Returns(shape)


def _joined(shapes: Sequence[Shape]) -> Shape:
    """What is either of some; where one way gives None there is no loss to speak of."""
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    first: Shape = known[0]
    for other in known[1:]:
        match first, other:
            case tuple(), tuple() if len(first) == len(other):
                first = tuple(_either(a, b) for a, b in zip(first, other, strict=True))
            case dict(), dict():
                names = sorted(first.keys() | other.keys())
                first = {name: _either(first.get(name), other.get(name)) for name in names}
            case str(), str():
                first = _either(first, other)
            case _:
                return "unknown"
    return first


def _either(a: One, b: One) -> One:
    if a is None or b is None:
        return a or b
    return a if a == b else "unknown"


class _Reading:
    """One class, its methods by name and the losses that it keeps as attributes."""

    def __init__(self, cls: ast.ClassDef, imports: Mapping[str, str]) -> None:
        self.methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
        self.imports = imports
        self.attributes: dict[str, Shape] = {}
        for node in ast.walk(cls):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and _is_self(target.value):
                        built = self._built(node.value)
                        seen = self.attributes.get(target.attr, built)
                        self.attributes[target.attr] = _joined([seen, built])

    def method(self, name: str, depth: int) -> Shape:
        """What a method returns, over all its returns."""
        node = self.methods.get(name)
        if node is None or depth > DEEPEST:
            return "unknown"
        found: list[Shape] = []
        self._run(node.body, {}, found, depth)
        return _joined(found)

    def _built(self, call: ast.Call) -> Shape:
        """What a loss of torch gives that is built here: ``nn.CrossEntropyLoss()``."""
        last = self._dotted(call.func).rsplit(".", 1)[-1]
        return self._told(call) if last in LOSSES and last[:1].isupper() else "unknown"

    # --- statements -------------------------------------------------------------------------------------------

    def _run(self, body: Sequence[ast.stmt], names: Names, found: list[Shape], depth: int) -> None:
        for statement in body:
            match statement:
                case ast.Return(value=value):
                    found.append(None if value is None else self._value(value, names, depth))
                    return
                case ast.Raise():
                    return
                case ast.Assign(targets=targets, value=value):
                    shape = self._value(value, names, depth)
                    for target in targets:
                        _bind(target, shape, names)
                case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                    _bind(target, self._value(value, names, depth), names)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    both = ast.BinOp(ast.Name(name, ast.Load()), op, value)
                    names[name] = self._value(both, names, depth)
                case ast.If(body=inner, orelse=other):
                    self._branch([inner, other], names, found, depth)
                case ast.Try(body=inner, handlers=handlers, orelse=other, finalbody=last):
                    ways = [[*inner, *other, *last], *([*h.body, *last] for h in handlers)]
                    self._branch(ways, names, found, depth)
                case ast.For(body=inner) | ast.While(body=inner):
                    self._branch([inner, []], names, found, depth)
                case ast.Match(cases=cases):
                    self._branch([case.body for case in cases], names, found, depth)
                case ast.With(body=inner):
                    self._run(inner, names, found, depth)
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))) if (
                    attr.endswith("_")  # ``loss.div_(n)``
                ):
                    names[name] = "unknown"

    def _branch(
        self, ways: Sequence[Sequence[ast.stmt]], names: Names, found: list[Shape], depth: int
    ) -> None:
        ends: list[Names] = []
        for way in ways:
            end = dict(names)
            self._run(way, end, found, depth)
            if not any(isinstance(s, (ast.Return, ast.Raise)) for s in way):
                ends.append(end)
        for name in {name for end in ends for name in end}:
            # What one way does not bind it leaves unbound: nobody reads it there.
            names[name] = _joined([end[name] for end in ends if name in end])

    # --- expressions ------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr, names: Names, depth: int) -> Shape:
        match node:
            case ast.Constant(value=None):
                return None
            case ast.Name(id=name):
                return names.get(name, "unknown")
            case ast.Tuple(elts=elements) if not any(isinstance(e, ast.Starred) for e in elements):
                return tuple(_one(self._value(e, names, depth)) for e in elements)
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                return {
                    key.value: _one(self._value(value, names, depth))
                    for key, value in pairs
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                }
            case ast.IfExp(body=one, orelse=other):
                return _joined([self._value(one, names, depth), self._value(other, names, depth)])
            case ast.Subscript(value=base):
                # Some of a loss that is not reduced; of anything else nothing is known.
                return "unknown" if _one(self._value(base, names, depth)) != "sum" else "sum"
            case ast.BinOp(left=left, op=op, right=right):
                return self._combined(left, op, right, names, depth)
            case ast.Call():
                return self._called(node, names, depth)
            case _:
                return "unknown"

    def _combined(self, left: ast.expr, op: ast.operator, right: ast.expr, names: Names, depth: int) -> One:
        mine, its = _one(self._value(left, names, depth)), _one(self._value(right, names, depth))
        match op:
            case ast.Add() | ast.Sub():
                return _either(mine, its)
            case ast.Mult() if _is_weight(right):
                return mine
            case ast.Mult() if _is_weight(left):
                return its
            case ast.Div() if isinstance(right, ast.Constant):
                return mine
            case ast.Div() if mine == "sum" and _is_count(right):
                return "mean"
            case ast.Div() if mine != "unknown":
                return "divided"
            case _:
                return "sum" if mine == "sum" and isinstance(op, ast.Mult) else "unknown"

    def _called(self, call: ast.Call, names: Names, depth: int) -> Shape:
        match call.func:
            case ast.Attribute(value=base, attr=attr) if _is_self(base):
                if attr in self.methods:
                    return self.method(attr, depth + 1)
                return self.attributes.get(attr, "unknown")
            case ast.Attribute(value=base, attr="mean" | "sum" as attr) if not self._is_torch(base):
                return self._reduced(attr, base, call, call.args, names, depth)
            case ast.Attribute(value=base, attr=attr) if attr in KEEPING and not self._is_torch(base):
                return _one(self._value(base, names, depth))
        dotted = self._dotted(call.func)
        last = dotted.rsplit(".", 1)[-1]
        if last in LOSSES and not last[:1].isupper() and dotted.startswith("torch"):
            return self._told(call)
        if last in ("mean", "sum") and dotted.startswith("torch") and call.args:
            return self._reduced(last, call.args[0], call, call.args[1:], names, depth)
        if isinstance(call.func, ast.Call):
            return self._built(call.func)  # ``nn.MSELoss()(a, b)``
        if last[:1].isupper() and call.keywords:
            fields = {k.arg: _one(self._value(k.value, names, depth)) for k in call.keywords if k.arg}
            return fields if last.endswith(("Output", "Outputs")) else "unknown"
        return "unknown"

    def _reduced(
        self,
        how: str,
        base: ast.expr,
        call: ast.Call,
        dimensions: Sequence[ast.expr],
        names: Names,
        depth: int,
    ) -> One:
        """``x.mean()`` or ``x.sum()``; along one dimension only, nothing is decided yet."""
        before = _one(self._value(base, names, depth))
        if dimensions or any(k.arg in ("dim", "axis") for k in call.keywords):
            return before
        if before not in ("unknown", None):
            return before
        return "mean" if how == "mean" else "sum"

    def _told(self, call: ast.Call) -> Reduction:
        """The reduction that a loss of torch was given, its average unless told otherwise."""
        if any(k.arg is None for k in call.keywords):
            return "unknown"
        given = {k.arg: k.value for k in call.keywords}
        if given.keys() & {"size_average", "reduce"}:
            return "unknown"
        match given.get("reduction"):
            case None:
                return "mean"
            case ast.Constant(value="mean"):
                return "mean"
            case ast.Constant(value="sum"):
                return "sum"
            case _:
                return "unknown"

    def _dotted(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])

    def _is_torch(self, node: ast.expr) -> bool:
        return self._dotted(node).startswith("torch")


def _bind(target: ast.expr, shape: Shape, names: Names) -> None:
    match target:
        case ast.Name(id=name):
            names[name] = shape
        case ast.Tuple(elts=elements):
            known = isinstance(shape, tuple) and len(shape) == len(elements)
            for index, element in enumerate(elements):
                _bind(element, shape[index] if known and isinstance(shape, tuple) else "unknown", names)


def _one(shape: Shape) -> One:
    return "unknown" if isinstance(shape, (tuple, dict)) else shape


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_weight(node: ast.expr) -> bool:
    """A constant factor: a number, or an attribute of the network or of its configuration."""
    while isinstance(node, ast.Attribute):
        node = node.value
        if _is_self(node):
            return True
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _is_count(node: ast.expr) -> bool:
    """How many items there are: ``mask.sum()``, ``x.numel()``, ``len(x)``, ``x.shape[0]``."""
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr=attr)):
            return attr in COUNTS or (attr in BOUNDED and _is_count(base))
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Call(func=ast.Name(id="max"), args=arguments):
            return any(map(_is_count, arguments))
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant()):
            return _is_count(left)
        case _:
            return False
