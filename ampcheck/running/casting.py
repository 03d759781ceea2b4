"""Which autocast is in force where a model runs or a backward starts."""

from __future__ import annotations

from dataclasses import replace

from ampcheck.events import Forward
from ampcheck.running import values as v
from ampcheck.running.describing import text_of
from ampcheck.running.machine import Machine
from ampcheck.running.truth import is_decided, truth

__all__ = ["in_force", "pass_through", "settled"]


def in_force(machine: Machine) -> tuple[str, str]:
    """The dtype of the innermost autocast ("?" when unknown, "" for none), and the test that it depends on, if open."""
    context = machine.autocasts[-1] if machine.autocasts else None
    if context is None or context.enabled is v.FALSE:
        return "", ""
    dtype = context.dtype or "?"
    if context.enabled is None:
        return dtype, ""
    option = text_of(context.enabled)
    machine.options[option] = context.enabled
    return _settled(machine, dtype, option)


def _settled(machine: Machine, dtype: str, option: str) -> tuple[str, str]:
    enabled = machine.options.get(option)
    if enabled is None or not is_decided(machine, enabled):
        return dtype, option
    holds, _ = truth(machine, enabled, machine.module.body[0].site)
    return (dtype, "") if holds else ("", "")


def pass_through(machine: Machine, model: v.Model) -> Forward:
    """A pass through a model, as things stand."""
    dtype, option = in_force(machine)
    synced = model.id not in machine.unsynced
    return Forward(model.id, model.wrapper, model.bypassed, synced, dtype, option)


def settled(machine: Machine, forwards: tuple[Forward, ...]) -> tuple[Forward, ...]:
    """The passes with what has been decided since: a scaler that hangs on the same option is asked later."""
    found = []
    for forward in forwards:
        dtype, option = _settled(machine, forward.autocast, forward.option) if forward.option else ("", "")
        found.append(replace(forward, autocast=dtype, option=option) if forward.option else forward)
    return tuple(dict.fromkeys(found))
