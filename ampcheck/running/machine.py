"""The state of one run, and the three mutually recursive operations that the rest of the package shares.

A `Machine` holds frames, roles, guards and the growing trace.  How expressions are evaluated, statements executed
and values called stands in modules of their own; `ampcheck.running.interpreter` puts them together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from ampcheck import events as ev
from ampcheck import program as p
from ampcheck.events import Site
from ampcheck.gradients import State, apply
from ampcheck.running import values as v
from ampcheck.running.choices import Choices
from ampcheck.running.layout import Layout
from ampcheck.running.naming import names_window
from ampcheck.running.setting import Setting
from ampcheck.trace import Guard, Record, Role

__all__ = ["Cap", "Frame", "Infeasible", "Machine", "MustFork", "Signal"]

MAX_EVENTS = 3000
MAX_CALLS = 4000
MAX_DEPTH = 40


class Cap(Exception):
    """A cap was reached: the run ends here and a note says so."""


class Infeasible(Exception):
    """No execution makes these choices: the run is dropped."""


class MustFork(Exception):
    """Two arms of a branch differ in what matters, so the run has to choose."""


class Signal(Exception):
    """A jump on its way: "break", "continue", "return" (with its value) or "raise"."""

    def __init__(self, kind: str, value: v.Value = v.NONE) -> None:
        self.kind = kind
        self.value = value


@dataclass(slots=True, eq=False)
class Frame:
    """The names of one function call or module; `parent` is the enclosing function's frame."""

    names: dict[str, v.Value] = field(default_factory=dict)
    parent: Frame | None = None
    owner: v.Class | None = None
    yields: list[v.Value] | None = None

    def find(self, name: str) -> v.Value | None:
        """The value of a name, looked up outwards."""
        frame: Frame | None = self
        while frame is not None:
            value = frame.names.get(name)
            if value is not None:
                return value
            frame = frame.parent
        return None


class Machine(ABC):
    """One run in the making."""

    def __init__(self, program: p.Program, layout: Layout, choices: Choices, setting: Setting) -> None:
        self.program = program
        self.module = program.main
        self.layout = layout
        self.choices = choices
        self.setting = setting
        self.frame = Frame()
        self.frames: dict[str, Frame] = {program.main.path: self.frame}
        self.engine: v.Instance | None = None
        self.births: dict[v.Instance, str] = {}
        self.handed: dict[str, v.Instance] = {}
        self.entries: dict[v.Instance, tuple[tuple[Site, int], ...]] = {}
        self.at = Site(program.main.path, 1, 1, 1, 1)
        self.state = State()
        self.records: list[Record] = []
        self.roles: dict[str, Role] = {}
        self.objects: dict[str, v.Value] = {}
        self.guards: list[Guard] = []
        self.calls: list[Site] = []
        self.path: list[tuple[Site, int]] = []
        self.micro = -1
        self.tick = -1
        self.last_backward: tuple[tuple[Site, int], ...] | None = None
        self.readings = 0
        self.uses: dict[int, set[str]] = {}
        self.touched = 0
        self.work = 0
        self.called = 0
        self.entered: set[p.Node] = set()
        self.unsynced: list[str] = []
        self.autocasts: list[v.Context] = []
        self.options: dict[str, v.Value] = {}
        self.no_grad = 0
        self.sheltered = 0  # tries with handlers around this place, inside the iteration
        self.frozen: set[str] = set()
        self.hooks: list[tuple[str, v.Value, bool, bool]] = []
        # Whether what runs is only for parameters that a test has picked out of a loop over them.
        self.picked = False
        self.depth = 0
        self.trial: list[tuple[dict[Any, v.Value], Any, v.Value | None]] | None = None
        self.hint = ""
        self.moduli: dict[Guard, str] = {}
        self.active: list[p.Node] = []
        self.loops: list[str] = []
        self.loop_nodes: list[p.For | p.While] = []
        self.at_last: list[bool] = []
        self.stacks: list[v.Context | v.Instance] = []
        self.forking: set[p.Node] = set()
        self.impure: set[p.Node] = set()
        self.memory: dict[p.Node, tuple[object, v.Value, object]] = {}
        self.loaders: set[str] = set()
        self.unbound: dict[str, v.Unknown] = {}
        self.named: set[str] = set()
        self.looking: set[tuple[int, str]] = set()
        self.synthetic = False
        self.differentiates = False
        self.repeated = 0  # how often a loop around the data was entered again

    def names_window(self, text: str) -> bool:
        """Whether an expression is called like a window's length, here or as the project's settings say."""
        return names_window(text) or self.program.names.is_window(text)

    # --- the three operations -------------------------------------------------------------------------------

    @abstractmethod
    def evaluate(self, node: p.Expr) -> v.Value:
        """The value of an expression."""

    @abstractmethod
    def execute(self, body: tuple[p.Stmt, ...]) -> None:
        """Run statements; jumps leave as Signal."""

    @abstractmethod
    def call(self, callee: v.Value, args: list[v.Value], kwargs: dict[str, v.Value], node: p.Expr) -> v.Value:
        """Call a value; events that happen in it are emitted at `node`."""

    def adopt(self, value: v.Value) -> v.Value:
        """An optimizer or scheduler known by its name alone: where an engine is at work, it has prepared it."""
        if self.engine is None or self.births.get(self.engine) not in self.setting.engaged:
            return value
        prepare = self.evaluate_attribute(self.engine, "prepare")
        if not isinstance(prepare, v.Bound):
            return value
        return self.call(prepare, [value], {}, p.Opaque(self.outside))

    @abstractmethod
    def module_member(self, link: p.Link) -> v.Value:
        """A definition of another module of the program."""

    @abstractmethod
    def evaluate_attribute(self, value: v.Value, name: str) -> v.Value:
        """``value.name``."""

    @abstractmethod
    def assign(self, target: p.Expr, value: v.Value) -> None:
        """``target = value``."""

    @abstractmethod
    def merge_arms(self, node: p.If) -> bool:
        """Run both arms as one if they differ in nothing that matters; whether that worked."""

    @abstractmethod
    def merge_values(self, node: p.IfExp) -> v.Value | None:
        """The value of both arms if they differ in nothing that matters."""

    def is_outer(self, node: p.For | p.While) -> bool:
        """Whether a loop is around the loop over the data."""
        return node in self.layout.outer or node.site in self.setting.outer_loops

    def is_over_batches(self, node: p.For | p.While) -> bool:
        """Whether a loop is the innermost one around a backward."""
        return node in self.layout.batches or node.site in self.setting.batch_loops

    def synchronise(self, model: str, on: bool) -> None:
        """A hand-written switch of a model's gradient synchronisation."""
        self.touch()
        while model in self.unsynced:
            self.unsynced.remove(model)
        if not on:
            self.unsynced.append(model)

    def enter(self, context: v.Context, node: p.Node) -> None:
        """Enter a context manager that matters."""
        self.touch()
        match context.kind:
            case "no_sync":
                self.unsynced.append(context.role)
            case "no_grad":
                self.no_grad += 1
            case "autocast":
                self.autocasts.append(context)
                if (
                    not self.no_grad and context.enabled is not v.FALSE
                ):  # what is only evaluated trains nothing
                    self.emit(ev.Autocast(site=node.site, dtype=context.dtype, device=context.device))

    def leave(self, context: v.Context) -> None:
        """Leave it again."""
        if context.kind == "no_sync" and context.role in self.unsynced:
            self.unsynced.remove(context.role)
        elif context.kind == "no_grad":
            self.no_grad -= 1
        elif context in self.autocasts:
            self.autocasts.remove(context)

    @property
    def doings(self) -> tuple[int, ...]:
        """Changes whenever this run does more than compute: events, calls, roles, choices."""
        choices = self.choices
        return (
            len(self.records),
            self.called,
            len(self.roles),
            len(choices.taken),
            len(choices.varying),
            self.touched,
        )

    # --- memory -----------------------------------------------------------------------------------------------

    def store(self, where: dict[Any, v.Value], key: Any, value: v.Value) -> None:
        """Bind a name, attribute or item; remembered while two arms of a branch are tried."""
        if self.trial is not None:
            self.trial.append((where, key, where.get(key)))
        where[key] = value

    def bind_name(self, name: str, value: v.Value) -> None:
        """Bind a name in the current frame, or where ``global`` or ``nonlocal`` use would find it."""
        self.store(self.frame.names, name, value)

    def rebind(self, old: v.Value, new: v.Value) -> None:
        """A tensor changed in place: every name for it in this frame now means what it has become."""
        for name, value in list(self.frame.names.items()):
            if value is old:
                self.store(self.frame.names, name, new)

    def give(self, value: v.Value, delegate: bool) -> None:
        """``yield``: collected until there are enough items for two windows and a tail."""
        frame: Frame | None = self.frame
        while frame is not None and frame.yields is None:
            frame = frame.parent
        if frame is None or frame.yields is None:
            return
        self.touch()
        items = value.items if delegate and isinstance(value, (v.Seq, v.Items)) and value.items else [value]
        frame.yields.extend(items)
        if len(frame.yields) >= self.setting.batches:
            raise Signal("enough")

    def touch(self) -> None:
        """Say that something is about to happen that a trial of two arms cannot undo."""
        self.touched += 1
        if self.trial is not None:
            raise MustFork

    # --- events -----------------------------------------------------------------------------------------------

    def emit(self, event: ev.Event) -> Record:
        """Append an event to the trace."""
        self.touch()
        if len(self.records) >= MAX_EVENTS:
            raise Cap(f"more than {MAX_EVENTS} events")
        index = len(self.records)
        if self.program.is_model(event.site.path):
            event = replace(event, site=self.outside)
        after, refused = apply(self.state, event, index)
        record = Record(
            index,
            event,
            self.state,
            after,
            max(self.micro, 0),
            self.epoch,
            tuple(i for _, i in self.path),
            tuple(map(self._seen, self.guards)),
            tuple(site for site in self.calls if not self.program.is_model(site.path)),
            refused,
            self.path[-1][0] if self.path else None,
        )
        self.records.append(record)
        self.state = after
        return record

    @property
    def outside(self) -> Site:
        """The user's own place that led here: the innermost call outside library models, else the root."""
        return next((site for site in reversed(self.calls) if not self.program.is_model(site.path)), self.at)

    def _seen(self, guard: Guard) -> Guard:
        return replace(guard, site=self.outside) if self.program.is_model(guard.site.path) else guard

    @property
    def has_leftover(self) -> bool:
        """Whether gradients are there that no step has used: the tail of an epoch, which the next one may meet."""
        return any(b.contributions and not b.stepped for b in self.state.buffers.values())

    @property
    def epoch(self) -> int:
        """The iteration of the outermost loop where loops are nested."""
        if not self.path:
            return 0
        site, index = self.path[0]
        return index if len(self.path) > 1 or site in self.layout.outer_sites else 0

    def begin_micro(self) -> int:
        """The number of the micro-batch of a backward that happens now."""
        here = tuple(self.path)
        if self.last_backward != here:
            self.micro += 1
            self.last_backward = here
        return self.micro

    # --- roles ------------------------------------------------------------------------------------------------

    def add_role(self, role: Role) -> str:
        """Register a role under a name that no other object has; its identifier."""
        name, number = role.id, 2
        while name in self.roles and not _same(self.roles[name], role):
            name, number = f"{role.id}#{number}", number + 1
        if name not in self.roles:
            self.touch()
        engine = self.roles[name].engine if name in self.roles else role.engine
        self.roles[name] = replace(role, id=name, engine=engine)
        return name

    def name_object(self, name: str, thing: v.Value) -> str:
        """A name for an object that no other object of this run has: two functions may both call theirs ``model``."""
        number, free = 2, name
        while self.objects.setdefault(free, thing) is not thing:
            free, number = f"{name}#{number}", number + 1
        return free

    def optimizers(self) -> tuple[Role, ...]:
        """The optimizers known so far, in this run or in an earlier run of the same root."""
        found = {r.id: r for r in self.setting.optimizers}
        found.update((r.id, r) for r in self.roles.values() if r.kind == "optimizer")
        return tuple(found.values())

    # --- guards -----------------------------------------------------------------------------------------------

    @contextmanager
    def guarded(self, *guards: Guard) -> Iterator[None]:
        """Events inside depend on these guards."""
        size = len(self.guards)
        self.guards += guards
        try:
            yield
        finally:
            del self.guards[size:]

    def flagged(self, value: v.Value) -> v.Value:
        """A constant that is bound under a boundary test stands for that test: ``if (i + 1) % k == 0: last = True``."""
        if not isinstance(value, v.Truth) or value.boundary or value.modulus:
            return value
        for guard in reversed(self.guards):
            if guard.boundary or guard in self.moduli:
                return v.Truth(value.value, guard.boundary, self.moduli.get(guard, ""))
        return value

    def text(self, node: p.Node) -> str:
        """The source of a node."""
        return self.program.text(node)

    def cap(self, why: str) -> NoReturn:
        """End the run because a cap was reached."""
        raise Cap(why)


def _same(old: Role, new: Role) -> bool:
    return old.kind == new.kind and (old.site == new.site or old.site is None or new.site is None)
