"""Gives each trace the checkpoints that are written of its optimizers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ampcheck import events as ev
from ampcheck.checkpoints.elsewhere import Elsewhere
from ampcheck.checkpoints.keeping import keeps_scaler
from ampcheck.checkpoints.written import Function, Written, functions_of, own_nodes, written_in
from ampcheck.events import Site
from ampcheck.source import Source
from ampcheck.syntax import site_of
from ampcheck.trace import Record, Trace

__all__ = ["with_checkpoints"]


def with_checkpoints(source: Source, traces: Sequence[Trace]) -> list[Trace]:
    """The traces, each ended by the checkpoints of its optimizers; unchanged where a scaler's state is kept."""
    stepping = any(e.scaler for t in traces for _, e in t.of(ev.Step))
    if not stepping or source.tree is None or ("state_dict" not in source.text and "save" not in source.text):
        return list(traces)
    scalers = {r.text for t in traces for r in t.roles_of("scaler")}
    if keeps_scaler(source, scalers):
        return list(traces)
    written = list(written_in(source.tree, Elsewhere(source.path, source.tree)))
    if not written:
        return list(traces)
    places = _Places(source)
    return [_ended(trace, written, places) for trace in traces]


def _ended(trace: Trace, written: Iterable[Written], places: _Places) -> Trace:
    records = list(trace.records)
    steps = [r for r in records if isinstance(r.event, ev.Step)]
    for one in written:
        if not steps:
            break
        near = [r for r in steps if places.belongs(one.function, r)]
        stepped = dict.fromkeys(r.event.optimizer for r in near if isinstance(r.event, ev.Step))
        named = tuple(o for o in stepped if _bare(trace, o) in one.optimizers)
        owners = named or (tuple(stepped) if len(stepped) == 1 else ())
        # An optimizer that a run knows by its maker only: the only one there is, in the function that trains.
        only = len(one.optimizers) == 1 and any(places.are_together(one.function, r) for r in near)
        sure = one.sure and (bool(named) or only)
        if not owners:
            continue
        last = records[-1]
        event = ev.Checkpoint(site=places.site(one.node), optimizers=owners, sure=sure)
        records.append(
            Record(len(records), event, last.after, last.after, last.micro, last.epoch, last.iteration)
        )
    return replace(trace, records=tuple(records))


def _bare(trace: Trace, role: str) -> str:
    text = trace.roles[role].text if role in trace.roles else role
    return text.split("[")[0].rsplit(".", 1)[-1]


class _Places:
    """Where in a file things stand, and which functions have to do with which others."""

    def __init__(self, source: Source) -> None:
        self.path, self.lines = source.path, source.lines
        assert source.tree is not None
        self.outermost = [n for n in source.tree.body if isinstance(n, (Function, ast.ClassDef))]
        self.calls: dict[str, set[str]] = {}
        for function in functions_of(source.tree):
            names = self.calls.setdefault(function.name, set())
            names |= {n.id for n in own_nodes(function) if isinstance(n, ast.Name)}
            names |= {n.attr for n in own_nodes(function) if isinstance(n, ast.Attribute)}
        top = own_nodes(source.tree)
        self.top = {n.id for n in top if isinstance(n, ast.Name)} | {
            n.attr for n in top if isinstance(n, ast.Attribute)
        }

    def site(self, node: ast.expr) -> Site:
        """A node's place."""
        return site_of(node, self.path, self.lines)

    def belongs(self, function: Function | None, record: Record) -> bool:
        """Whether a function's checkpoint is one of the training that a step is part of.

        It is where both stand in one class or outermost function, or one is called from where the other is.
        """
        steps = [s for s in (*record.calls, record.event.site) if s.path == self.path]
        around = [self._around(s.line) for s in steps]
        if function is None or not around or any(a is None for a in around):
            return (
                function is None
                or function.name in self.top
                or any(a is not None and function.name in self._reach(_names(a)) for a in around)
            )
        own = self._around(function.lineno)
        if any(a is own for a in around):
            return True
        return (
            any(function.name in self._reach(_names(a)) for a in around if a is not None)
            or any(a is not None and _names(a) & self._reach({function.name}) for a in around)
            or any(
                function.name in reach and any(a is not None and _names(a) & reach for a in around)
                for reach in (self._reach({caller}) for caller in self.calls)
            )
        )

    def are_together(self, function: Function | None, record: Record) -> bool:
        """Whether a step is taken in this very function, or from it."""
        steps = [s for s in (*record.calls, record.event.site) if s.path == self.path]
        return function is not None and any(
            function.lineno <= s.line <= (function.end_lineno or s.line) for s in steps
        )

    def _around(self, line: int) -> ast.stmt | None:
        return next((n for n in self.outermost if n.lineno <= line <= (n.end_lineno or line)), None)

    def _reach(self, names: set[str]) -> set[str]:
        """The functions that these mention, and so on."""
        reached: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in self.calls and name not in reached:
                reached.add(name)
                todo += self.calls[name]
        return reached


def _names(node: ast.stmt) -> set[str]:
    """A function's name; a class's own and those of its methods."""
    names = {n.name for n in ast.walk(node) if isinstance(n, Function)}
    return names | ({node.name} if isinstance(node, (ast.ClassDef, Function)) else set())
