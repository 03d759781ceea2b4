"""Who may call whom in a program, by bare name and without regard to scope: a first guess that the run corrects."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck import program as p
from ampcheck.lowering.names import plain

__all__ = ["CallGraph", "callees", "mentions"]

# ``optimizer.step()`` is hardly a call of the project's own ``step``: such names count on ``self`` alone, or where the
# class that defines them is mentioned.
COMMON = frozenset(
    "step update backward train eval zero_grad scale unscale forward fit run main __init__ __call__".split()
)


def mentions(*body: p.Node) -> set[str]:
    """All names and attributes in a body, functions defined inside it left out."""
    names: set[str] = set()
    for node in _own(body):
        match node:
            case p.Name(id=name):
                names.add(plain(name))
            case p.Attribute(attr=name):
                names.add(name)
    return names


def callees(*body: p.Node) -> set[str]:
    """The names by which a body may call functions of the project."""
    names: set[str] = set()
    for node in _own(body):
        match node:
            case p.Call(func=func, arguments=arguments):
                # ``mp.spawn(train, args)``: a bare everyday word is a function where it is called or handed on.
                handed = [func, *(a.value for a in arguments if not a.name)]
                names |= {value.id for value in handed if isinstance(value, p.Name)}
            case p.Name(id=name) if name not in COMMON:
                names.add(name)
            case p.Attribute(attr=name, value=owner):
                if name not in COMMON or _is_own(owner):
                    names.add(name)
    return names


def _is_own(owner: p.Expr) -> bool:
    """``self``, ``cls`` or ``super()``."""
    match owner:
        case p.Name(id="self" | "cls") | p.Call(func=p.Name(id="super")):
            return True
        case _:
            return False


def _own(body: tuple[p.Node, ...]) -> Iterator[p.Node]:
    stack: list[p.Node] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, (p.FunctionDef, p.ClassDef)):
            continue
        yield node
        stack.extend(p.children(node))


class CallGraph:
    """The functions of a program and what they may call."""

    def __init__(self, body: tuple[p.Stmt, ...]) -> None:
        self.classes: dict[p.FunctionDef, p.ClassDef] = {}
        self.functions = list(self._functions(body, None))
        self._mentions = {f: mentions(*f.body) for f in self.functions}
        self._callees = {f: callees(*f.body) for f in self.functions}
        self._names: dict[str, list[p.FunctionDef]] = {}
        for function in self.functions:
            self._names.setdefault(function.name, []).append(function)
            owner = self.classes.get(function)
            if owner is not None and function.name in COMMON and not p.Program.is_model(owner.site.path):
                self._names.setdefault(owner.name, []).append(function)

    def _functions(self, body: tuple[p.Stmt, ...], cls: p.ClassDef | None) -> Iterator[p.FunctionDef]:
        for statement in body:
            match statement:
                case p.FunctionDef():
                    if cls is not None:
                        self.classes[statement] = cls
                    yield statement
                    yield from self._functions(statement.body, None)
                case p.ClassDef():
                    yield from self._functions(statement.body, statement)
                case p.If(body=inner, orelse=orelse):
                    yield from self._functions(inner + orelse, cls)
                case p.With(body=inner) | p.For(body=inner) | p.While(body=inner):
                    yield from self._functions(inner, cls)
                case p.Try(body=inner, handlers=handlers, orelse=orelse, final=final):
                    rest = tuple(s for handler in handlers for s in handler)
                    yield from self._functions(inner + orelse + final + rest, cls)

    def mentioning(self, seeds: frozenset[str]) -> set[p.FunctionDef]:
        """The functions that mention one of the names."""
        return {f for f in self.functions if self._mentions[f] & seeds}

    def with_callers(self, found: set[p.FunctionDef]) -> set[p.FunctionDef]:
        """Functions, and all that may call one of them, however indirectly."""
        found = set(found)
        while True:
            names = self.names_of(found)
            more = {f for f in self.functions if f not in found and self._callees[f] & names}
            if not more:
                return found
            found |= more

    def names_of(self, found: set[p.FunctionDef]) -> set[str]:
        """The names by which any of these functions may be called."""
        return {name for name, functions in self._names.items() if any(f in found for f in functions)}

    def called_by(self, function: p.FunctionDef) -> set[p.FunctionDef]:
        """The functions that a function may itself call."""
        return {g for name in self._callees[function] for g in self._names.get(name, ())}

    def reach(self, function: p.FunctionDef, among: set[p.FunctionDef]) -> int:
        """How many others of a set a function may end up calling."""
        found: set[p.FunctionDef] = set()
        stack = [function]
        while stack:
            current = stack.pop()
            more = (self.called_by(current) & among) - found - {function}
            found |= more
            stack += more
        return len(found)
