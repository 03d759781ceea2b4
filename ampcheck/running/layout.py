"""What the program's shape tells before anything runs: nesting of loops, gates, and the roots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ampcheck import program as p
from ampcheck.events import Site
from ampcheck.lowering.names import EVENT_NAMES
from ampcheck.lowering.telling import TELLING
from ampcheck.running.callgraph import CallGraph, callees, mentions
from ampcheck.running.inheriting import ancestors

__all__ = ["DRIVE", "Layout", "Root", "lay_out"]

STEP_NAMES = frozenset(
    {"backward", "unscale_", "clip_grad_norm_", "clip_grad_value_", "zero_grad", "NativeScaler"}
)
BACKWARD = frozenset({"backward"})
# The method of a library model in which its engine runs the user's hooks.
DRIVE = "__drive__"


@dataclass(frozen=True, slots=True)
class Root:
    """Where a run begins: the module (no function), a function, or a method on an object of a class (`cls`).

    A method may be one that the class inherits, of the project's own base class or of a library's engine.
    """

    function: p.FunctionDef | None = None
    cls: p.ClassDef | None = None

    @property
    def name(self) -> str:
        """As messages call it."""
        if self.function is None:
            return "the module"
        return self.cls.name if self.cls and self.function.name == DRIVE else self.function.name

    @property
    def site(self) -> Site | None:
        """Its place in the file that is checked."""
        if self.function is None:
            return None
        return (
            self.cls.site
            if self.cls and self.cls.site.path != self.function.site.path
            else self.function.site
        )


@dataclass(slots=True)
class Layout:
    """Facts about a program's functions and loops.

    `outer`: loops around another loop that holds a backward; `distant`: loops around an outer one;
    `batches`: the innermost loops that hold one;
    `idle`: loops with no event in them; `gates`: ifs that an optimizer's step depends on;
    `window_tests`: comparisons with a counter that is set back; `tails`: returns that end their function;
    `roots`: functions that hold part of a step, those first from which the most others are reached;
    `relays`: functions that hold no event themselves, with those that they call which do;
    `inherited`: loops that classes of this file inherit, and whose hooks they define;
    `classes`: the class that a method belongs to; `looping`: functions with a loop around a backward;
    `eventful`: functions that mention an event, or call one that does; `telling`: those where it is no everyday word;
    `yielding`: loops with a yield in them;
    `gated`: loops with a gate in them;
    `holding`: top-level statements that themselves run part of a step; `module_holds`: some of them are the file's own.
    """

    outer: set[p.Node] = field(default_factory=set)
    outer_sites: set[Site] = field(default_factory=set)
    distant: set[p.Node] = field(default_factory=set)
    batches: set[p.Node] = field(default_factory=set)
    idle: set[p.Node] = field(default_factory=set)
    gates: set[p.Node] = field(default_factory=set)
    window_tests: set[p.Node] = field(default_factory=set)
    tails: set[p.Node] = field(default_factory=set)
    roots: list[Root] = field(default_factory=list)
    relays: dict[p.FunctionDef, set[p.FunctionDef]] = field(default_factory=dict)
    inherited: list[Root] = field(default_factory=list)
    classes: dict[p.FunctionDef, p.ClassDef] = field(default_factory=dict)
    looping: set[p.Node] = field(default_factory=set)
    eventful: set[p.Node] = field(default_factory=set)
    telling: set[p.FunctionDef] = field(default_factory=set)
    yielding: set[p.Node] = field(default_factory=set)
    gated: set[p.Node] = field(default_factory=set)
    holding: set[p.Node] = field(default_factory=set)
    module_holds: bool = False


def lay_out(program: p.Program) -> Layout:
    """The layout of a program."""
    module = program.main
    body = tuple(statement for one in program.modules.values() for statement in one.body)
    graph = CallGraph(body)
    layout = Layout(classes=graph.classes)
    # A trainer's `fit` is an everyday word, unless a model of its library is here.
    telling = STEP_NAMES | {
        "fit" for f in graph.functions if f.name == "fit" and program.is_model(f.site.path)
    }
    stepping = graph.mentioning(telling)
    steps = graph.with_callers(stepping)
    layout.relays = {f: graph.called_by(f) & steps for f in steps if f not in stepping}
    own = (f for f in graph.functions if f in steps and f.site.path == module.path)
    layout.roots = [
        Root(f, graph.classes.get(f)) for f in sorted(own, key=lambda f: graph.reach(f, steps), reverse=True)
    ]
    _Loops(graph, layout).find(body)
    layout.inherited = list(_inherited(program, layout))
    _find_distant(graph, layout)
    layout.window_tests = _window_tests(body)
    _find_gates(graph, body, layout)
    layout.gated = {n for n in _loops(body) if any(inner in layout.gates for inner in p.walk(*n.body))}
    layout.tails = {f.body[-1] for f in graph.functions if f.body and isinstance(f.body[-1], p.Return)}
    names = graph.names_of(steps)
    for statement in body:
        if isinstance(statement, (p.FunctionDef, p.ClassDef, p.Import)):
            continue
        if _called(statement) & telling or callees(statement) & names:
            layout.holding.add(statement)
    layout.module_holds = any(statement in layout.holding for statement in module.body)
    return layout


def _inherited(program: p.Program, layout: Layout) -> Iterator[Root]:
    """The loops that a class of the file inherits, of a library's engine or of a base class that calls its hooks."""
    for cls in program.main.body:
        if not isinstance(cls, p.ClassDef):
            continue
        own = {s.name for s in cls.body if isinstance(s, p.FunctionDef)}
        for base in ancestors(program, cls):
            methods = {s.name: s for s in base.body if isinstance(s, p.FunctionDef)}
            if DRIVE in methods:
                yield Root(methods[DRIVE], cls)
                break
            if base.site.path == cls.site.path:
                continue
            hooked = {m.name for m in methods.values() if callees(*m.body) & own}
            for name, method in methods.items():
                reaches = name in hooked or callees(*method.body) & hooked
                if name not in own and method in layout.looping and reaches:
                    yield Root(method, cls)


def _called(statement: p.Stmt) -> set[str]:
    """The bare names of what a statement itself calls."""
    functions = [n.func for n in p.walk(statement) if isinstance(n, p.Call)]
    return {f.attr for f in functions if isinstance(f, p.Attribute)} | {
        f.id for f in functions if isinstance(f, p.Name)
    }


class _Loops:
    """Sorts the loops of a program by what is in them."""

    def __init__(self, graph: CallGraph, layout: Layout) -> None:
        self.graph = graph
        self.layout = layout
        self.backwards = graph.names_of(graph.with_callers(graph.mentioning(BACKWARD)))
        layout.eventful = set(graph.with_callers(graph.mentioning(EVENT_NAMES)))
        layout.telling = graph.with_callers(graph.mentioning(TELLING | {"grad"}) | _stepping(graph))
        self.eventful = graph.names_of(graph.with_callers(graph.mentioning(EVENT_NAMES)))
        own = {f for f in graph.functions if any(self._differentiates(n) for n in _loops(f.body))}
        layout.looping = set(graph.with_callers(own))
        self.looping = graph.names_of(graph.with_callers(own))

    def _differentiates(self, loop: p.For | p.While) -> bool:
        return bool(mentions(*loop.body) & BACKWARD or callees(*loop.body) & self.backwards)

    def find(self, body: tuple[p.Stmt, ...]) -> None:
        """Fill in the layout."""
        layout = self.layout
        for loop in _loops(body):
            if any(isinstance(node, p.Yield) for node in p.walk(loop)):
                layout.yielding.add(loop)
            inner = _loops(loop.body)
            if any(self._differentiates(n) for n in inner) or callees(*loop.body) & self.looping:
                layout.outer.add(loop)
                layout.outer_sites.add(loop.site)
            elif self._differentiates(loop):
                layout.batches.add(loop)
            elif not (mentions(*loop.body) & EVENT_NAMES or callees(*loop.body) & self.eventful):
                layout.idle.add(loop)


def _stepping(graph: CallGraph) -> set[p.FunctionDef]:
    """The functions that step something."""
    return {f for f in graph.functions if any(_calls_step(n) for n in p.walk(*f.body))}


def _calls_step(node: p.Node) -> bool:
    return isinstance(node, p.Call) and isinstance(node.func, p.Attribute) and node.func.attr == "step"


def _find_distant(graph: CallGraph, layout: Layout) -> None:
    holders = {f for f in graph.functions if any(n in layout.outer for n in _loops(f.body))}
    names = graph.names_of(graph.with_callers(holders))
    for loop in layout.outer:
        if isinstance(loop, (p.For, p.While)):
            inside = any(n in layout.outer for n in _loops(loop.body))
            if inside or callees(*loop.body) & names:
                layout.distant.add(loop)


def _loops(body: tuple[p.Stmt, ...]) -> list[p.For | p.While]:
    return [n for n in p.walk(*body) if isinstance(n, (p.For, p.While))]


def _find_gates(graph: CallGraph, everything: tuple[p.Stmt, ...], layout: Layout) -> None:
    own = {f for f in graph.functions if any(_steps(n) for n in p.walk(*f.body))}
    names = graph.names_of(graph.with_callers(own))
    for node in p.walk(*everything):
        if isinstance(node, p.If):
            body = (*node.body, *node.orelse)
            if callees(*body) & names or any(_steps(n) for n in p.walk(*body)):
                layout.gates.add(node)


def _steps(node: p.Node) -> bool:
    """Whether a node is a call of an optimizer's step: ``scaler.step(optimizer)``, ``self.opt.step()``."""
    match node:
        case p.Call(func=p.Attribute(attr="step", value=p.Name(id=owner) | p.Attribute(attr=owner))):
            return bool(node.arguments) or "opt" in owner.lower()
        case _:
            return False


def _window_tests(body: tuple[p.Stmt, ...]) -> set[p.Node]:
    """Comparisons with a counter that is set back somewhere: ``if count == accum``."""
    stores: dict[str, int] = {}
    comparisons: list[p.Compare] = []
    for node in p.walk(*body):
        match node:
            case p.Assign(targets=targets, value=p.Constant() | p.Name() | p.Unary()):
                for target in targets:
                    for name in mentions(target) if isinstance(target, p.Name) else _last(target):
                        stores[name] = stores.get(name, 0) + 1
            case p.Compare():
                comparisons.append(node)
    # Set once is a start, set twice is a start and a reset.
    reset = {name for name, count in stores.items() if count > 1}
    return {c for c in comparisons if mentions(c) & reset}


def _last(target: p.Expr) -> tuple[str, ...]:
    return (target.attr,) if isinstance(target, p.Attribute) else ()
