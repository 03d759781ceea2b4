"""Keeps events, what their guards and roles depend on, and jumps; drops every other statement.

Names decide, without regard to scope or flow: a statement is kept when it mentions an event's name, jumps, or
binds a name that a kept statement mentions.  That keeps too much now and then, never too little; and an `if`
with nothing left in it is gone, so that it can never fork a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ampcheck import program as p
from ampcheck.kept import Kept
from ampcheck.lowering.names import EVENT_NAMES, is_scaler_state, plain

__all__ = ["Facts", "slice_module"]

JUMPS = (p.Break, p.Continue, p.Return, p.Raise, p.Import, p.Assert)
REPORTERS = frozenset({"print", "logger", "logging", "log", "wandb", "writer", "tqdm", "warnings"})
NESTING = (p.If, p.For, p.While, p.With, p.Try, p.FunctionDef, p.ClassDef)


def _mentioned(nodes: Iterable[p.Node]) -> set[str]:
    names: set[str] = set()
    for node in p.walk(*nodes):
        if isinstance(node, p.Name):
            names.add(plain(node.id))
        elif isinstance(node, p.Attribute):
            names.add(node.attr)
            match node.value:
                case p.Name(id=owner) | p.Attribute(attr=owner) if is_scaler_state(owner, node.attr):
                    names.add("scaler.state_dict")
    return names


def _bound(target: p.Node) -> set[str]:
    """The names a target binds, a container's own name for an item store included."""
    match target:
        case p.Name(id=name):
            return {plain(name)}
        case p.Attribute(attr=name):
            return {name}
        case p.Subscript(value=value):
            return _bound(value)
        case p.Starred(value=value):
            return _bound(value)
        case p.Display(items=items):
            return set().union(*(_bound(item) for item in items))
        case _:
            return set()


@dataclass(frozen=True, slots=True)
class Fact:
    """The names that a statement binds, those that its own expressions mention, and whether one of these yields."""

    bound: frozenset[str]
    used: frozenset[str]
    yields: bool


@dataclass(slots=True)
class Facts:
    """What single statements tell, whatever matters: looked for once, however often they are asked."""

    _own: Kept[p.Stmt, Fact] = field(default_factory=Kept)
    _returned: Kept[p.Stmt, list[set[str]]] = field(default_factory=Kept)

    def of(self, statement: p.Stmt) -> Fact:
        """What a statement itself tells, without those inside it."""
        return self._own.get(statement, lambda: _fact(statement))

    def returned(self, function: p.FunctionDef) -> list[set[str]]:
        """The names in what a function returns, at each of its returns."""

        def look() -> list[set[str]]:
            returns = (s for s in p.walk(*function.body) if isinstance(s, p.Return))
            return [_mentioned([s.value]) for s in returns if s.value is not None]

        return self._returned.get(function, look)

    def forget_unused(self) -> None:
        """Forget what nobody asked for since the last call."""
        self._own.forget_unused()
        self._returned.forget_unused()


def _fact(statement: p.Stmt) -> Fact:
    bound: set[str] = set()
    heads = _heads(statement) if isinstance(statement, NESTING) else (statement,)
    for target in _targets(statement):
        bound |= _bound(target)
    yields = False
    for node in p.walk(*heads):
        if isinstance(node, p.NamedExpr):
            bound |= _bound(node.target)
        yields = yields or isinstance(node, p.Yield)
    return Fact(frozenset(bound), frozenset(_mentioned(heads)), yields)


class _Slice:
    """The set of names that matter, grown until nothing changes."""

    def __init__(
        self, body: tuple[p.Stmt, ...], holders: frozenset[str], wanted: frozenset[str], facts: Facts
    ) -> None:
        self._facts = facts
        self.names = set(EVENT_NAMES) | {plain(name) for name in wanted | holders}
        self.holders: set[str] = set(holders)
        self._holds = True
        # A function of another module that touches gradients and is called a norm gives one out.
        self.gradients = {"grad", "main_grad"} | {name for name in holders if "norm" in name}
        self._parameters = {
            f.name: {plain(q.name) for q in f.parameters}
            for f in p.walk(*body)
            if isinstance(f, p.FunctionDef)
        }
        size = -1
        while len(self.names) + len(self.holders) + len(self.gradients) != size:
            size = len(self.names) + len(self.holders) + len(self.gradients)
            self._block(body)

    def _block(self, body: tuple[p.Stmt, ...]) -> bool:
        # Not any(): every statement must be visited.
        return max([self._statement(statement) for statement in body], default=False)

    def _statement(self, statement: p.Stmt) -> bool:
        """Whether a statement matters; if it does, so does all that it mentions."""
        match statement:
            case p.FunctionDef(name=name) | p.ClassDef(name=name):
                known = bool({name, plain(name)} & (self.holders | self.names))
                outer, self._holds = self._holds, known or isinstance(statement, p.ClassDef)
                matters = self._block(statement.body)
                self._holds = outer
                if isinstance(statement, p.FunctionDef) and self._returns_gradients(statement):
                    self.gradients.add(name)
                if matters:
                    self.holders |= {name, plain(name)}
                if matters or {name, plain(name)} & self.names:
                    self.names |= {name, plain(name)}
                    return True
                return False
            case p.Import():
                return False
        fact = self._facts.of(statement)
        bound, used = fact.bound, fact.used
        self._follow_gradients(statement, bound, used)
        inside = [self._block(block) for block in _blocks(statement)]
        matters = any(inside) or bool(bound & self.names or used & EVENT_NAMES or used & self.holders)
        if isinstance(statement, p.ExprStmt) and fact.yields:
            matters = self._holds
        elif isinstance(statement, p.ExprStmt):
            reports = _only_reports(statement.value, self.holders, self.gradients)
            matters = not reports and bool(used & self.names)
        elif isinstance(statement, JUMPS):
            # A jump decides whether events happen only where there are any.
            matters = matters or self._holds
        if matters:
            self.names |= used
        if used & EVENT_NAMES and isinstance(statement, p.Assign):
            self.names |= bound  # ``clip = torch.nn.utils.clip_grad_norm_`` is called by another name
        return matters

    def _follow_gradients(self, statement: p.Stmt, bound: frozenset[str], used: frozenset[str]) -> None:
        """What is bound to gradients matters, and so do the parameters of functions that are given them."""
        if not (used & self.gradients or _measures(statement, used)):
            return
        more = set(bound)
        for node in p.walk(statement) if not isinstance(statement, NESTING) else ():
            if isinstance(node, p.Call) and any(
                _mentioned([a.value]) & self.gradients for a in node.arguments
            ):
                more |= self._parameters.get(_called(node), set())
        self.gradients |= more
        self.names |= more

    def _returns_gradients(self, function: p.FunctionDef) -> bool:
        """Whether a function gives out something that it took from gradients: their norm, most of the time."""
        return any(names & self.gradients for names in self._facts.returned(function))


def _measures(statement: p.Stmt, used: frozenset[str]) -> bool:
    """Whether a statement takes the gradients' norm with a clip that bounds nothing."""
    if not used & {"clip_grad_norm_", "get_total_norm"} or isinstance(statement, NESTING):
        return False
    infinite = (n.value in ("inf", "infinity") for n in p.walk(statement) if isinstance(n, p.Constant))
    return "get_total_norm" in used or "inf" in used or any(infinite)


def _targets(statement: p.Stmt) -> tuple[p.Expr, ...]:
    match statement:
        case p.Assign(targets=targets):
            return targets
        case p.AugAssign(target=target) | p.For(target=target):
            return (target,)
        case p.With(items=items):
            return tuple(target for _, target in items if target is not None)
        case _:
            return ()


def _heads(statement: p.Stmt) -> tuple[p.Node, ...]:
    match statement:
        case p.If(test=test) | p.While(test=test):
            return (test,)
        case p.For(iterable=iterable):
            return (iterable,)
        case p.With(items=items):
            return tuple(context for context, _ in items)
        case _:
            return ()


def _blocks(statement: p.Stmt) -> tuple[tuple[p.Stmt, ...], ...]:
    match statement:
        case (
            p.If(body=body, orelse=orelse)
            | p.For(body=body, orelse=orelse)
            | p.While(body=body, orelse=orelse)
        ):
            return (body, orelse)
        case p.With(body=body):
            return (body,)
        case p.Try(body=body, handlers=handlers, orelse=orelse, final=final):
            return (body, *handlers, orelse, final)
        case _:
            return ()


def slice_module(
    module: p.Module,
    holders: frozenset[str] = frozenset(),
    wanted: frozenset[str] = frozenset(),
    facts: Facts | None = None,
) -> p.Module:
    """The module without the statements that no event depends on.

    `holders` are imported functions that hold events; `wanted` are names that other modules ask for.
    """
    found = _Slice(module.body, holders, wanted, facts or Facts())
    return replace(module, body=_kept(module.body, found))


def _kept(body: tuple[p.Stmt, ...], found: _Slice, record: bool = False) -> tuple[p.Stmt, ...]:
    """What is kept of a block; of a `record`'s, all of its fields, whose order is that of its arguments."""
    names, holders = found.names, found.holders
    kept: list[p.Stmt] = []
    for statement in body:
        match statement:
            case p.FunctionDef():
                kept.append(replace(statement, body=_kept(statement.body, found)))
            case p.ClassDef():
                kept.append(replace(statement, body=_kept(statement.body, found, p.is_record(statement))))
            case p.If():
                inner, orelse = _kept(statement.body, found), _kept(statement.orelse, found)
                if inner or orelse:
                    kept.append(replace(statement, body=inner, orelse=orelse))
                elif _has_events(statement.test):
                    kept.append(p.ExprStmt(statement.site, statement.test))
            case p.For() | p.While():
                inner, orelse = _kept(statement.body, found), _kept(statement.orelse, found)
                if inner or orelse:
                    kept.append(replace(statement, body=inner, orelse=orelse))
            case p.With():
                inner = _kept(statement.body, found)
                if inner or any(_has_events(context) for context, _ in statement.items):
                    kept.append(replace(statement, body=inner))
            case p.Try():
                blocks = [_kept(b, found) for b in (statement.body, statement.orelse, statement.final)]
                handlers = tuple(_kept(h, found) for h in statement.handlers)
                if any(blocks) or any(handlers):
                    kept.append(p.Try(statement.site, blocks[0], handlers, blocks[1], blocks[2]))
            case p.Assign(targets=targets, annotation=annotation):
                bound = set().union(*(_bound(t) for t in targets))
                if (
                    (record and annotation is not None)
                    or bound & names
                    or _has_events(statement)
                    or _mentioned([statement]) & holders
                ):
                    kept.append(statement)
            case p.AugAssign(target=target):
                if _bound(target) & names or _has_events(statement) or _mentioned([statement]) & holders:
                    kept.append(statement)
            case p.ExprStmt(value=value):
                if isinstance(value, p.Constant) or _only_reports(value, holders, found.gradients):
                    continue
                if _mentioned([value]) & names or _yields(statement):
                    kept.append(statement)
            case _:
                kept.append(statement)
    return tuple(kept)


def _yields(statement: p.Stmt) -> bool:
    return any(isinstance(node, p.Yield) for node in p.walk(statement))


def _called(node: p.Call) -> str:
    match node.func:
        case p.Name(id=name) | p.Attribute(attr=name):
            return name
        case _:
            return ""


def _only_reports(value: p.Expr, holders: set[str], gradients: set[str]) -> bool:
    """Whether an expression only prints or logs, with no event or gradient in it and no call of a function with one."""
    root: p.Expr = value.func if isinstance(value, p.Call) else value
    while isinstance(root, p.Attribute):
        root = root.value
    if not isinstance(value, p.Call) or not isinstance(root, p.Name) or root.id.lower() not in REPORTERS:
        return False
    if any(isinstance(n, p.Call) and _called(n) in holders for n in p.walk(value)):
        return False
    return not (_has_events(value) or _mentioned([value]) & gradients)


def _has_events(node: p.Node) -> bool:
    return bool(_mentioned([node]) & EVENT_NAMES)
