"""Turns a finished run into a trace."""

from __future__ import annotations

from ampcheck import events as ev
from ampcheck.events import Site
from ampcheck.running.machine import Machine
from ampcheck.running.norms import finished
from ampcheck.trace import Guard, Trace, Window

__all__ = ["trace_of"]


def trace_of(machine: Machine, root: str) -> Trace:
    """The trace of a run, as it stands."""
    nowhere = Site(machine.module.path, 1, 1, 1, 1)
    roles = {r.id: r for r in machine.setting.optimizers} | machine.roles
    doubtful = machine.choices.doubtful
    choices = tuple(
        Guard(text, holds, nowhere, doubtful=text in doubtful)
        for text, holds in machine.choices.invariant.items()
    )
    deviation = machine.choices.deviation
    if deviation is not None and deviation.text in machine.choices.varying:
        atom = machine.choices.varying[deviation.text]
        boundary = atom.modulus in machine.setting.windows
        choices += (Guard(atom.text, not atom.usual, nowhere, True, boundary, atom.finite, atom.skip),)
    records, window = finished(machine), _window(machine)
    return Trace(root, records, roles, choices, window, _is_complete(machine), machine.synthetic)


def _window(machine: Machine) -> Window | None:
    setting = machine.setting
    for record in machine.records:
        if isinstance(record.event, ev.Backward) and any(u.window < 0 for u in record.event.loss.parts):
            for spelling in setting.windows:
                setting.declared.setdefault(spelling, set()).add("division")
            break
    best = max(setting.windows, key=lambda s: len(setting.declared.get(s, ())), default=None)
    if best is None or not setting.declared.get(best, set()) - {""}:
        return None
    declared = frozenset(setting.declared[best] - {""})
    text = setting.labels.get(best, best)
    told = machine.program.names.is_window(text)
    number = int(best) if best.isdigit() else None
    return Window(setting.windows[best], text, number is not None, declared, told, number)


def _is_complete(machine: Machine) -> bool:
    """Whether the root holds the whole of a step, or only a part that its caller completes."""
    if not machine.synthetic:
        return True
    kinds = {type(r.event) for r in machine.records}
    return machine.setting.scaled_tail is None and {ev.Backward, ev.Step, ev.ZeroGrad} <= kinds
