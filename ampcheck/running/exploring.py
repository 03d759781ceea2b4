"""Explores a program's roots: all invariant choices, and one deviation from the uneventful run at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ampcheck import program as p
from ampcheck.events import Event, Site
from ampcheck.running import values as v
from ampcheck.running.callgraph import mentions
from ampcheck.running.choices import PATTERNS, Choices, Deviation, Pattern
from ampcheck.running.interpreter import Interpreter
from ampcheck.running.layout import DRIVE, Layout, Root, lay_out
from ampcheck.running.machine import Cap, Infeasible
from ampcheck.running.roots import start
from ampcheck.running.setting import Setting
from ampcheck.running.traces import trace_of
from ampcheck.trace import Guard, Trace

__all__ = ["Exploration", "Truncation", "explore"]

Signature = tuple[object, tuple[tuple[Event, tuple[Guard, ...], tuple[int, ...]], ...]]

# Two options at a time: a fault that needs three of them off their usual value is not looked for.
MAX_FLIPS = 2
# Where more options than this matter, they are tried one at a time.
MANY_OPTIONS = 5
MAX_RUNS = 256
# Statements run for one root, in all its runs: some roots are so large that a few runs must do.
MOST_WORK = 400_000
MAX_RESTARTS = 10


@dataclass(frozen=True, slots=True)
class Truncation:
    """A cap that was reached: where, and what was not explored."""

    root: str
    site: Site
    why: str


@dataclass(slots=True)
class Exploration:
    """The traces of a program's roots, and what was cut short.

    `repeats` are runs with other choices but the events of one of the traces: they show that a choice changes nothing,
    which a verdict must know.
    """

    traces: list[Trace] = field(default_factory=list)
    repeats: list[Trace] = field(default_factory=list)
    truncations: list[Truncation] = field(default_factory=list)


def explore(
    program: p.Program,
    most: int | None = None,
    pulse: Callable[[], None] | None = None,
    layout: Layout | None = None,
) -> Exploration:
    """Run every root of a program, each at most so many times; `pulse` is called before each run, and may raise.

    `layout` is the program's, where somebody has it already.
    """
    layout = layout or lay_out(program)
    result = Exploration()
    entered: set[p.Node] = set()
    roots = [Root()] if layout.module_holds else []
    starting = [root for root in layout.roots if root.cls is None and _starts_trainer(root)]
    for root in [*roots, *starting, *layout.inherited, *layout.roots]:
        if root.function is not None and root.function in entered and root not in layout.inherited:
            continue
        relayed = layout.relays.get(root.function) if root.function is not None else None
        if relayed and relayed <= entered and root not in layout.inherited:
            continue  # another way in: what it leads to was run
        if _is_driven(root) and root.cls is not None and not entered.isdisjoint(root.cls.body):
            continue  # a trainer that can be seen has run the class already, with its own settings
        entered |= _Exploring(program, layout, root, result, most or MAX_RUNS, pulse).run()
    if program.missing:
        nowhere = Site(program.main.path, 1, 1, 1, 1)
        result.truncations.append(Truncation("its imports", nowhere, program.missing))
    return result


def _is_driven(root: Root) -> bool:
    """Whether a root is a library's own training loop."""
    return root.function is not None and root.function.name == DRIVE


def _starts_trainer(root: Root) -> bool:
    """Whether a function hands a model to a trainer of its own making: ``Trainer(...).fit(model)``."""
    return root.function is not None and "fit" in mentions(*root.function.body)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A run to be made: the first choices, the deviation, the trace and choices of the run it varies, and how many
    options are not as usual; `retreat` holds the choices of an infeasible run that it stands in for.
    """

    script: tuple[bool, ...] = ()
    deviation: Deviation | None = None
    parent: Signature | None = None
    known: frozenset[str] = frozenset()
    flips: int = 0
    retreat: tuple[bool, ...] = ()


def _retreats(plan: _Plan, choices: Choices) -> list[_Plan]:
    """What to try instead of a run that no execution makes: its last choice otherwise, then the one before it."""
    retreat = plan.retreat[:-1] if len(choices.taken) <= len(plan.script) else tuple(choices.taken)
    if not retreat:
        return []
    script = (*retreat[:-1], not retreat[-1])
    return [replace(plan, script=script, retreat=retreat)]


def _others(deviation: Deviation, atom: v.Atom | None) -> tuple[Pattern, ...]:
    """The patterns that a test is tried in after the first."""
    if atom is not None and atom.once:
        return ("inside",) if deviation.pattern == "boundary" else ()
    if deviation.pattern != "always" or (atom is not None and atom.monotone):
        return ()
    return PATTERNS[1:]


def _signature(trace: Trace | None) -> Signature | None:
    """What two runs have in common that no rule can tell apart."""
    if trace is None:
        return None
    # An invariant guard is the same all through a run: what matters of it is what it leads to.
    return trace.window, tuple(
        (r.event, tuple(g for g in r.guards if g.varying or g.boundary), r.iteration) for r in trace.records
    )


class _Exploring:
    """One root's exploration."""

    def __init__(
        self,
        program: p.Program,
        layout: Layout,
        root: Root,
        result: Exploration,
        most: int,
        pulse: Callable[[], None] | None,
    ) -> None:
        self.most = most
        self.pulse = pulse
        self.work = 0
        self.program = program
        self.layout = layout
        self.root = root
        self.result = result
        self.name = root.name
        self.site = root.site or Site(program.main.path, 1, 1, 1, 1)
        self.entered: set[p.Node] = set()
        self.repeats: list[Trace] = []

    def run(self) -> set[p.Node]:
        """Explore with growing settings until nothing new turns up; the functions that were entered."""
        setting = Setting()
        traces: list[Trace] = []
        for _ in range(MAX_RESTARTS):
            setting.grown = False
            self.repeats.clear()
            traces = list(self._runs(setting))
            if not setting.grown:
                break
        if not traces:
            self._truncate("no combination of its options gets past its own checks, so nothing of it was run")
        self.result.traces += traces
        self.result.repeats += self.repeats
        return self.entered

    def _runs(self, setting: Setting) -> Iterator[Trace]:
        """All runs of the root, depth first.

        A choice that changes nothing in the trace is taken to change nothing in any other combination either: only
        what it newly leads to is explored further.
        """
        pending = [_Plan()]
        seen: set[Signature | None] = set()
        inert: set[str] = set()
        relevant = 0  # options that change the trace when they alone are not as usual
        for count in itertools.count():
            if not pending:
                return
            if self.work > MOST_WORK * self.most // MAX_RUNS:
                self._truncate(
                    f"more than {MOST_WORK:,} statements in {count} runs: {len(pending)} combinations of its options "
                    "not explored"
                )
                return
            if count >= self.most:
                self._truncate(
                    f"more than {self.most} combinations of its options: {len(pending)} not explored"
                )
                return
            plan = pending.pop(0)
            crowded = relevant > MANY_OPTIONS
            if crowded and plan.flips > 1:
                continue
            choices = Choices(plan.script, plan.deviation)
            trace = self._one(choices, setting)
            if setting.grown:
                return
            signature = _signature(trace)
            news = signature is None or signature != plan.parent
            texts = choices.asked
            if trace is None:
                pending += _retreats(plan, choices)
                continue
            for i in range(len(plan.script), len(choices.taken)):
                if plan.flips < MAX_FLIPS and (news or texts[i] not in plan.known):
                    flipped = (*choices.taken[:i], not choices.taken[i])
                    pending.append(
                        _Plan(flipped, plan.deviation, signature, frozenset(texts), plan.flips + 1)
                    )
            if not news and plan.deviation is not None:
                inert.add(plan.deviation.text)
            if not news or (plan.deviation is None and signature in seen):
                self.repeats.append(trace)
                continue
            seen.add(signature)
            relevant += plan.flips == 1 and plan.deviation is None
            yield trace
            if plan.deviation is None and plan.flips < MAX_FLIPS:
                for text, atom in choices.varying.items():
                    if text in inert:
                        continue
                    deviation = Deviation(text, "boundary" if atom.once else "always")
                    plan_ = _Plan(tuple(choices.taken), deviation, signature, frozenset(texts), plan.flips)
                    pending.append(plan_)
            elif plan.deviation is not None and not (crowded and plan.flips):
                for pattern in _others(plan.deviation, choices.varying.get(plan.deviation.text)):
                    pending.append(replace(plan, deviation=Deviation(plan.deviation.text, pattern)))

    def _one(self, choices: Choices, setting: Setting) -> Trace | None:
        if self.pulse is not None:
            self.pulse()
        machine = Interpreter(self.program, self.layout, choices, setting)
        try:
            start(machine, self.root)
        except Infeasible:
            return None
        except Cap as cap:
            self._truncate(str(cap))
        except RecursionError:
            self._truncate("nested too deeply to be run")
        self.entered |= machine.entered
        self.work += machine.work
        return trace_of(machine, self.name)

    def _truncate(self, why: str) -> None:
        truncation = Truncation(self.name, self.site, why)
        if truncation not in self.result.truncations:
            self.result.truncations.append(truncation)
