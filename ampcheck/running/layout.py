"""What the program's shape tells before anything runs: nesting of loops, who calls whom, and the roots.

Calls are matched by bare name here, without regard to scope: a first guess that the run itself corrects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ampcheck import program as p
from ampcheck.events import Site
from ampcheck.lowering.names import EVENT_NAMES

__all__ = ["Layout", "lay_out"]

STEP_NAMES = frozenset({"backward", "unscale_", "clip_grad_norm_", "clip_grad_value_", "zero_grad"})


@dataclass(slots=True)
class Layout:
    """Facts about a program's functions and loops.

    `outer`: loops around another loop that holds a backward; `batches`: the innermost loops that hold one;
    `idle`: loops with no event in them; `gates`: ifs that an optimizer's step depends on;
    `window_tests`: comparisons with a counter that is set back; `tails`: returns that end their function;
    `roots`: functions that hold part of a step, those first that nobody else who holds one calls;
    `classes`: the class that a method belongs to; `looping`: functions with a loop around a backward;
    `holding`: top-level statements that themselves run part of a step.
    """

    outer: set[p.Node] = field(default_factory=set)
    outer_sites: set[Site] = field(default_factory=set)
    batches: set[p.Node] = field(default_factory=set)
    window_tests: set[p.Node] = field(default_factory=set)
    gates: set[p.Node] = field(default_factory=set)
    idle: set[p.Node] = field(default_factory=set)
    tails: set[p.Node] = field(default_factory=set)
    roots: list[p.FunctionDef] = field(default_factory=list)
    classes: dict[p.FunctionDef, p.ClassDef] = field(default_factory=dict)
    looping: set[p.Node] = field(default_factory=set)
    holding: set[p.Node] = field(default_factory=set)

    @property
    def module_holds(self) -> bool:
        """Whether the module's own statements run part of a step."""
        return bool(self.holding)


def lay_out(module: p.Module) -> Layout:
    """The layout of a program."""
    layout = Layout()
    functions = list(_functions(module.body, None, layout))
    mentions = {f: _mentions(f.body) for f in functions}
    by_name: dict[str, list[p.FunctionDef]] = {}
    for function in functions:
        names = [function.name]
        owner = layout.classes.get(function)
        if owner is not None and function.name in ("__init__", "__call__"):
            names.append(owner.name)
        for name in names:
            by_name.setdefault(name, []).append(function)
    steps = _closure(functions, mentions, by_name, STEP_NAMES)
    backwards = _closure(functions, mentions, by_name, frozenset({"backward"}))
    holders = _closure(functions, mentions, by_name, EVENT_NAMES)
    eventful = {name for name, fs in by_name.items() if any(f in holders for f in fs)} | EVENT_NAMES
    loops = _loop_holders(functions, by_name, backwards, mentions)
    for body in [module.body, *(f.body for f in functions)]:
        _find_loops(body, by_name, backwards, loops, layout, eventful)
    layout.window_tests = _window_tests(module.body)
    stepping = {f.name for f in functions if any(_steps(n) for n in p.walk(*f.body))}
    for node in p.walk(*module.body):
        if isinstance(node, p.If) and any(_steps(n, stepping) for n in p.walk(*node.body, *node.orelse)):
            layout.gates.add(node)
    for function in functions:
        if function.body and isinstance(function.body[-1], p.Return):
            layout.tails.add(function.body[-1])
    layout.roots = _order(functions, steps, mentions, layout)
    layout.looping = set(loops)
    called = {f.name for f in steps} | {layout.classes[f].name for f in steps if f in layout.classes}
    for statement in module.body:
        is_definition = isinstance(statement, (p.FunctionDef, p.ClassDef, p.Import))
        if not is_definition and _calls(statement) & (STEP_NAMES | called):
            layout.holding.add(statement)
    return layout


def _functions(body: tuple[p.Stmt, ...], cls: p.ClassDef | None, layout: Layout) -> Iterator[p.FunctionDef]:
    """All functions, methods and nested functions."""
    for statement in body:
        match statement:
            case p.FunctionDef():
                if cls is not None:
                    layout.classes[statement] = cls
                yield statement
                yield from _functions(statement.body, None, layout)
            case p.ClassDef():
                yield from _functions(statement.body, statement, layout)
            case p.If(body=inner, orelse=orelse):
                yield from _functions(inner + orelse, cls, layout)
            case p.With(body=inner) | p.For(body=inner) | p.While(body=inner):
                yield from _functions(inner, cls, layout)
            case p.Try(body=inner, handlers=handlers, orelse=orelse, final=final):
                yield from _functions(
                    inner + orelse + final + tuple(s for h in handlers for s in h), cls, layout
                )


def _mentions(body: tuple[p.Stmt, ...]) -> set[str]:
    """Names and attributes mentioned in a body, functions defined inside it left out."""
    names: set[str] = set()
    stack: list[p.Node] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, (p.FunctionDef, p.ClassDef)):
            continue
        if isinstance(node, p.Name):
            names.add(node.id)
        elif isinstance(node, p.Attribute):
            names.add(node.attr)
        stack.extend(p.children(node))
    return names


def _calls(statement: p.Stmt) -> set[str]:
    """The bare names of what a statement calls."""
    functions = [n.func for n in p.walk(statement) if isinstance(n, p.Call)]
    return {
        f.attr if isinstance(f, p.Attribute) else f.id
        for f in functions
        if isinstance(f, (p.Attribute, p.Name))
    }


def _closure(
    functions: list[p.FunctionDef],
    mentions: dict[p.FunctionDef, set[str]],
    by_name: dict[str, list[p.FunctionDef]],
    seeds: frozenset[str],
) -> set[p.FunctionDef]:
    """The functions that mention one of the names, or call a function that does."""
    found = {f for f in functions if mentions[f] & seeds}
    grew = True
    while grew:
        names = {name for name, fs in by_name.items() if any(f in found for f in fs)}
        more = {f for f in functions if f not in found and mentions[f] & names}
        found |= more
        grew = bool(more)
    return found


def _loop_holders(
    functions: list[p.FunctionDef],
    by_name: dict[str, list[p.FunctionDef]],
    backwards: set[p.FunctionDef],
    mentions: dict[p.FunctionDef, set[str]],
) -> set[p.FunctionDef]:
    """The functions that hold a loop around a backward, or call one that does."""
    names = {name for name, fs in by_name.items() if any(f in backwards for f in fs)} | {"backward"}
    found = set()
    for function in functions:
        for node in p.walk(*function.body):
            if isinstance(node, (p.For, p.While)) and _mentions(node.body) & names:
                found.add(function)
                break
    grew = True
    while grew:
        callers = {name for name, fs in by_name.items() if any(f in found for f in fs)}
        more = {f for f in functions if f not in found and mentions[f] & callers}
        found |= more
        grew = bool(more)
    return found


def _find_loops(
    body: tuple[p.Stmt, ...],
    by_name: dict[str, list[p.FunctionDef]],
    backwards: set[p.FunctionDef],
    loops: set[p.FunctionDef],
    layout: Layout,
    eventful: set[str],
) -> None:
    names = {name for name, fs in by_name.items() if any(f in backwards for f in fs)} | {"backward"}
    looping = {name for name, fs in by_name.items() if any(f in loops for f in fs)}
    for node in p.walk(*body):
        if not isinstance(node, (p.For, p.While)):
            continue
        inner = [n for n in p.walk(*node.body) if isinstance(n, (p.For, p.While))]
        if any(_mentions(n.body) & names for n in inner) or _mentions(node.body) & looping:
            layout.outer.add(node)
            layout.outer_sites.add(node.site)
        elif _mentions(node.body) & names:
            layout.batches.add(node)
        elif not _mentions(node.body) & eventful:
            layout.idle.add(node)


def _steps(node: p.Node, stepping: set[str] | frozenset[str] = frozenset()) -> bool:
    """Whether a node is a call of an optimizer's step, or of a function that holds one."""
    if not isinstance(node, p.Call):
        return False
    match node.func:
        case p.Attribute(attr="step", value=p.Name(id=owner) | p.Attribute(attr=owner)):
            return bool(node.arguments) or "opt" in owner.lower() or (owner == "self" and "step" in stepping)
        case p.Attribute(attr=name) | p.Name(id=name):
            return name in stepping
        case _:
            return False


def _window_tests(body: tuple[p.Stmt, ...]) -> set[p.Node]:
    """Comparisons with a counter that is counted up somewhere and set back somewhere: ``if count == accum``."""
    counted: set[str] = set()
    stores: dict[str, int] = {}
    comparisons: list[p.Compare] = []
    for node in p.walk(*body):
        match node:
            case p.AugAssign(target=p.Name(id=name) | p.Attribute(attr=name), op="+" | "-"):
                counted.add(name)
            case p.Assign(targets=targets, value=p.Constant() | p.Name()):
                for target in targets:
                    if isinstance(target, (p.Name, p.Attribute)):
                        name = target.id if isinstance(target, p.Name) else target.attr
                        stores[name] = stores.get(name, 0) + 1
            case p.Compare():
                comparisons.append(node)
    # Set once is a start, set twice is a start and a reset.
    reset = {name for name, count in stores.items() if count > 1}
    return {c for c in comparisons if _mentions_of(c.left) & reset or _mentions_of(c.right) & reset}


def _mentions_of(node: p.Node) -> set[str]:
    return {
        n.id if isinstance(n, p.Name) else n.attr
        for n in p.walk(node)
        if isinstance(n, (p.Name, p.Attribute))
    }


def _order(
    functions: list[p.FunctionDef],
    steps: set[p.FunctionDef],
    mentions: dict[p.FunctionDef, set[str]],
    layout: Layout,
) -> list[p.FunctionDef]:
    """Holders of a step, those that no other holder calls first, then the rest (in case those never get there)."""
    called: set[str] = set()
    for function in steps:
        called |= mentions[function] - {function.name}
    ordered = [f for f in functions if f in steps]
    for function, cls in layout.classes.items():
        if function.name == "__call__" and cls.name in called:
            called.add("__call__")
    return sorted(ordered, key=lambda f: f.name in called)
