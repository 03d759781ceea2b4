"""The checkpoints that a file writes: containers of states that reach a call which saves them.

Followed within one function: a dict display, one built key by key, a dataclass, what is made of any of them.  A
function that returns such a container writes it where its result is saved; one that is handed the model and the
optimizer writes them where it is called.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ampcheck.checkpoints.elsewhere import Elsewhere
from ampcheck.checkpoints.states import NOTHING, States, states_in, states_under
from ampcheck.running.naming import names_optimizer
from ampcheck.syntax import called, last_name

__all__ = ["Function", "Written", "functions_of", "own_nodes", "saves", "written_in"]

SAVES = re.compile(
    r"(^|_)(save|dump|write|upload|store|put|persist)(_|$|[A-Z])|checkpoint|snapshot|ckpt", re.IGNORECASE
)
SAVES_NOTHING = re.compile(
    r"^on_|load|restore|resume|path|name|find|latest|remove|clean|_dir|delete|resume|get_", re.IGNORECASE
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Written:
    """One checkpoint: where it is put together, in which function (None: the module), and whose state it holds."""

    node: ast.expr
    function: Function | None
    optimizers: frozenset[str]
    sure: bool = True


def saves(name: str) -> bool:
    """Whether a function of this name writes what it is given to a file."""
    return SAVES.search(name) is not None and SAVES_NOTHING.search(name) is None


def functions_of(tree: ast.Module) -> list[Function]:
    """All functions and methods of a file."""
    return [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def own_nodes(function: Function | ast.Module) -> list[ast.AST]:
    """The nodes of a function without those of the functions inside it, in source order."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        found.append(node)
        stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def written_in(tree: ast.Module, elsewhere: Elsewhere) -> Iterator[Written]:
    """The checkpoints that a file writes."""
    functions = functions_of(tree)
    scopes = [_Scope(f, own_nodes(f)) for f in functions]
    scopes.append(_Scope(None, own_nodes(tree)))
    for scope in scopes:
        scope.read()
    savers = {s.function.name: s for s in scopes if s.function is not None and s.written}
    saved_calls = {name for scope in scopes for name in scope.saved_calls}
    calls = [(s, c) for s in scopes for c in s.calls]
    for scope in scopes:
        for one in scope.written:
            yield _with_arguments(one, calls)
        if scope.returned is not None and scope.function is not None:
            yield replace(scope.returned, sure=scope.function.name in saved_calls)
    for scope, call in calls:
        if called(call) not in savers and saves(called(call)):
            given = _handed(call)
            if given and elsewhere.saves_states(call):
                yield Written(call, scope.function, given)


def _with_arguments(one: Written, calls: Sequence[tuple[_Scope, ast.Call]]) -> Written:
    """A helper's checkpoint in the names of its callers: ``def save(model, optimizer)`` called ``save(net, opt)``."""
    if one.function is None:
        return one
    parameters = [a.arg for a in (*one.function.args.posonlyargs, *one.function.args.args)]
    if not one.optimizers & set(parameters):
        return one
    names = set(one.optimizers)
    for _, call in calls:
        if called(call) != one.function.name:
            continue
        own = parameters[1:] if parameters[:1] == ["self"] else parameters
        given = dict(zip(own, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
        names |= {last_name(value) for name, value in given.items() if name in one.optimizers}
    return replace(one, optimizers=frozenset(names))


def _handed(call: ast.Call) -> frozenset[str]:
    """The optimizers that a call hands over beside a model, as they are; empty when either is missing."""
    values = [*call.args, *(k.value for k in call.keywords if k.arg)]
    plain = [last_name(v) for v in values if isinstance(v, (ast.Name, ast.Attribute, ast.Subscript))]
    optimizers = frozenset(n for n in plain if names_optimizer(n))
    models = [n for n in plain if re.search(r"model|net(_|$|\d)|generator|discriminator", n, re.IGNORECASE)]
    return optimizers if models and not any(k.arg is None for k in call.keywords) else frozenset()


@dataclass(slots=True)
class _Scope:
    """One function's statements in order, and what its local names hold."""

    function: Function | None
    nodes: list[ast.AST]
    known: dict[str, States] = field(default_factory=dict)
    places: dict[str, ast.expr] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    calls: list[ast.Call] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    returned: Written | None = None
    saved_calls: set[str] = field(default_factory=set)
    made_by: dict[str, str] = field(default_factory=dict)
    apart: States = NOTHING
    apart_at: ast.expr | None = None
    handed_on: set[str] = field(default_factory=set)

    def read(self) -> None:
        """Follow the states through the statements."""
        for node in self.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    self._assign(target, value)
                case ast.For(target=ast.Name(id=name), iter=source):
                    self.aliases[name] = last_name(source)
                case ast.comprehension(target=ast.Name(id=name), iter=source):
                    self.aliases[name] = last_name(source)
                case ast.Call():
                    self._call(node)
                case ast.Return(value=value) if value is not None:
                    self._return(value)
        if not self.written and self.apart.resumable and not self.apart.open and self.apart_at is not None:
            self._write(self.apart_at, self.apart)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self.known[name] = states_in(value, self.known)
                self.places[name] = self._place(value)
                if isinstance(value, (ast.Name, ast.Attribute)):
                    self.aliases[name] = last_name(value)
                if isinstance(value, ast.Call):
                    self.made_by[name] = called(value)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                known = self.known.get(name, NOTHING)
                self.known[name] = known | states_under(key, value, self.known)
                self.places.setdefault(name, value)

    def _place(self, value: ast.expr) -> ast.expr:
        """Where what a value holds is put together: ``asdict(snapshot)`` is made of `snapshot`."""
        if states_in(value, {}) == NOTHING:
            for node in ast.walk(value):
                if isinstance(node, ast.Name) and self.known.get(node.id, NOTHING) != NOTHING:
                    return self.places.get(node.id, value)
        return value

    def _call(self, call: ast.Call) -> None:
        self.calls.append(call)
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr="update" | "setdefault") if name in self.known:
                more = [states_in(a, self.known) for a in call.args] or [NOTHING]
                self.known[name] |= more[0] if more[0] != NOTHING else States(open=True)
        if not saves(called(call)):
            if isinstance(call.func, ast.Attribute):  # ``callback.on_checkpoint_save(state)`` may add to it
                self.handed_on |= {a.id for a in call.args if isinstance(a, ast.Name)}
            return
        for argument in (*call.args, *(k.value for k in call.keywords)):
            for node in ast.walk(argument):
                if isinstance(node, ast.Call):
                    self.saved_calls.add(called(node))
                elif isinstance(node, ast.Name) and node.id in self.made_by:
                    self.saved_calls.add(self.made_by[node.id])
            states = states_in(argument, self.known)
            if states.resumable and not states.open:
                # What holds the states, not what they are of: ``scaler.step(optimizer)`` adds nothing to a file.
                names = {
                    n.id
                    for n in ast.walk(argument)
                    if isinstance(n, ast.Name) and self.known.get(n.id, NOTHING) != NOTHING
                }
                self._write(self._place(argument), states, not names & self.handed_on)
            elif states.optimizers or states.model:
                self.apart |= states
                self.apart_at = self._place(argument) if states.optimizers else self.apart_at

    def _return(self, value: ast.expr) -> None:
        states = states_in(value, self.known)
        if states.resumable and not states.open and not isinstance(value, ast.Tuple):
            self.returned = Written(self._place(value), self.function, self._named(states), False)

    def _write(self, place: ast.expr, states: States, sure: bool = True) -> None:
        if all(one.node is not place for one in self.written):
            self.written.append(Written(place, self.function, self._named(states), sure))

    def _named(self, states: States) -> frozenset[str]:
        return frozenset(self.aliases.get(name, name) for name in states.optimizers)
