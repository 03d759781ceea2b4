"""Explores a program's roots: all invariant choices, and one deviation from the uneventful run at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ampcheck import program as p
from ampcheck.events import Site
from ampcheck.running.choices import PATTERNS, Choices, Deviation
from ampcheck.running.interpreter import Interpreter
from ampcheck.running.layout import Layout, lay_out
from ampcheck.running.machine import Cap, Infeasible
from ampcheck.running.roots import start
from ampcheck.running.setting import Setting
from ampcheck.running.traces import trace_of
from ampcheck.trace import Trace

__all__ = ["Exploration", "Truncation", "explore"]

MAX_RUNS = 256
MAX_RESTARTS = 10


@dataclass(frozen=True, slots=True)
class Truncation:
    """A cap that was reached: where, and what was not explored."""

    root: str
    site: Site
    why: str


@dataclass(slots=True)
class Exploration:
    """The traces of a program's roots, and what was cut short."""

    traces: list[Trace] = field(default_factory=list)
    truncations: list[Truncation] = field(default_factory=list)


def explore(module: p.Module) -> Exploration:
    """Run every root of a program."""
    layout = lay_out(module)
    result = Exploration()
    entered: set[p.Node] = set()
    roots: list[p.FunctionDef | None] = [None] if layout.module_holds else []
    for root in [*roots, *layout.roots]:
        if root is not None and root in entered:
            continue
        entered |= _Root(module, layout, root, result).run()
    return result


class _Root:
    """One root's exploration."""

    def __init__(
        self, module: p.Module, layout: Layout, root: p.FunctionDef | None, result: Exploration
    ) -> None:
        self.module = module
        self.layout = layout
        self.root = root
        self.result = result
        self.name = root.name if root is not None else "the module"
        self.site = root.site if root is not None else Site(module.path, 1, 1, 1, 1)
        self.entered: set[p.Node] = set()

    def run(self) -> set[p.Node]:
        """Explore with growing settings until nothing new turns up; the functions that were entered."""
        setting = Setting()
        traces: list[Trace] = []
        for _ in range(MAX_RESTARTS):
            setting.grown = False
            traces = list(self._runs(setting))
            if not setting.grown:
                break
        self.result.traces += traces
        return self.entered

    def _runs(self, setting: Setting) -> Iterator[Trace]:
        pending: list[tuple[tuple[bool, ...], Deviation | None]] = [((), None)]
        seen = set(pending)
        count = 0
        while pending:
            if count >= MAX_RUNS:
                self._truncate(
                    f"more than {MAX_RUNS} combinations of its options: {len(pending)} not explored"
                )
                return
            count += 1
            script, deviation = pending.pop(0)
            choices = Choices(script, deviation)
            trace = self._one(choices, setting)
            if setting.grown:
                return
            more = [
                ((*choices.taken[:i], not choices.taken[i]), deviation)
                for i in range(len(script), len(choices.taken))
            ]
            if deviation is None and trace is not None:
                more += [(tuple(choices.taken), Deviation(t, q)) for t in choices.varying for q in PATTERNS]
            for item in more:
                if item not in seen:
                    seen.add(item)
                    pending.append(item)
            if trace is not None:
                yield trace

    def _one(self, choices: Choices, setting: Setting) -> Trace | None:
        machine = Interpreter(self.module, self.layout, choices, setting)
        try:
            start(machine, self.root)
        except Infeasible:
            return None
        except Cap as cap:
            self._truncate(str(cap))
        except RecursionError:
            self._truncate("nested too deeply to be run")
        self.entered |= machine.entered
        return trace_of(machine, self.name)

    def _truncate(self, why: str) -> None:
        truncation = Truncation(self.name, self.site, why)
        if truncation not in self.result.truncations:
            self.result.truncations.append(truncation)
