"""Loops: one iteration after the other, with the path that tells micro-batches apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ampcheck import program as p
from ampcheck.running import values as v
from ampcheck.running.looping import bind_target, count_of, counts_batches, is_over_data, iterate
from ampcheck.running.machine import Machine, Signal
from ampcheck.running.truth import truth

__all__ = ["run_for", "run_while"]


def run_for(machine: Machine, node: p.For) -> None:
    iterable = machine.evaluate(node.iterable)
    outer = machine.is_outer(node)
    single = not outer and _has_one_for_all(machine, node)
    counted = counts_batches(iterable)
    over_data = counted and not outer and is_over_data(iterable)
    machine.loops.append(_window_of(iterable))
    machine.loop_nodes.append(node)
    distant = counted and node in machine.layout.distant
    repeated = machine.repeated
    if over_data:
        machine.at_last.append(False)
    try:
        for index, value in enumerate(iterate(machine, iterable, node, outer, single=single)):
            again = _counts_epochs(machine, node) and machine.has_leftover
            if index and distant and machine.repeated > repeated and not again:
                break  # two epochs are enough: what is around them is not repeated
            machine.repeated += bool(index and counted and outer)
            if over_data:
                machine.at_last[-1] = index == count_of(machine, iterable, outer) - 1
            begin = partial(bind_target, machine, node.target, value)
            if not _iteration(machine, node, index, counted, begin):
                return
        machine.execute(node.orelse)
    finally:
        machine.loops.pop()
        machine.loop_nodes.pop()
        if over_data:
            machine.at_last.pop()


def _counts_epochs(machine: Machine, node: p.For) -> bool:
    """``for epoch in range(epochs)``: the loops inside go through files, whatever they look like."""
    return "epoch" in machine.text(node.target).lower() or "epoch" in machine.text(node.iterable).lower()


def _has_one_for_all(machine: Machine, node: p.For) -> bool:
    """Whether one item of what cannot be seen stands for all: no backward, no boundary and no yield is in the loop."""
    layout = machine.layout
    return not machine.is_over_batches(node) and node not in layout.gated and node not in layout.yielding


def _window_of(iterable: v.Value) -> str:
    match iterable:
        case v.Items(kind="enumerate" | "zip", inner=inner):
            return next((w for w in map(_window_of, inner) if w), "")
        case v.Items(window=window):
            return window
        case _:
            return ""


def _iteration(
    machine: Machine, node: p.For | p.While, index: int, counted: bool, begin: Callable[[], None]
) -> bool:
    """One iteration; False when the loop was left by ``break``."""
    size, guards, picked = len(machine.path), len(machine.guards), machine.picked
    if counted:
        machine.path.append((node.site, index))
        if machine.is_over_batches(node):
            machine.tick += 1
    try:
        begin()
        machine.execute(node.body)
    except Signal as signal:
        if signal.kind == "break":
            return False
        if signal.kind != "continue":
            raise
    finally:
        del machine.path[size:]
        del machine.guards[guards:]
        machine.picked = picked
    return True


def run_while(machine: Machine, node: p.While) -> None:
    outer = machine.is_outer(node)
    rounds = 2 if outer else machine.setting.batches
    machine.loops.append("")
    try:
        for index in range(1 if node in machine.layout.distant else rounds):
            test = machine.evaluate(node.test)
            if isinstance(test, (v.Truth, v.Number, v.Const)):
                holds, _ = truth(machine, test, node.test.site)
                if not holds:
                    break
            elif not outer and isinstance(test, v.Unknown) and test.modulus:
                break
            if not _iteration(machine, node, index, True, lambda: None):
                return
        machine.execute(node.orelse)
    finally:
        machine.loops.pop()
