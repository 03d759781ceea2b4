"""The one account of what each event does to gradients and to loss scalers.

    State --apply(event)--> Effect(State, refused)

A gradient buffer is a tuple of contributions, each in its own unit; a correct step sees contributions of one
window, all in the unit ``1/K``.  A scaler keeps one phase per optimizer, exactly as `torch.amp.GradScaler` does
(torch/amp/grad_scaler.py, 2.13): READY -> UNSCALED -> STEPPED, and `update` makes all of them READY again.
`refused` is the message torch would raise; the account then goes on as if the call had been ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from ampcheck import events as ev
from ampcheck.events import Unit

__all__ = ["READY", "STEPPED", "UNSCALED", "Buffer", "Contribution", "Effect", "State", "apply"]

READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one backward added to one buffer.

    `record` is the index of the backward in its trace; `assumed` marks a guess about which owner was reached.
    """

    micro: int
    unit: Unit
    record: int
    synced: bool = True
    assumed: bool = False
    reduction: str = "unknown"


@dataclass(frozen=True, slots=True)
class Buffer:
    """One owner's gradients.

    `stepped` says that a step has already used what is in it; `marks` collects what was done to it by hand since it
    was last empty ("clipped", "shifted", "hidden", "nonlinear", "read", "reduced").  `opaque` means that unseen
    code has had it since it was last zeroed, `zeros` that zeroing left tensors of zeros there instead of None.
    """

    contributions: tuple[Contribution, ...] = ()
    stepped: bool = False
    marks: frozenset[str] = frozenset()
    opaque: bool = False
    zeros: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no gradient is there."""
        return not self.contributions

    @property
    def is_none(self) -> bool:
        """Whether nothing that can be seen has left anything else than None there."""
        return self.is_empty and not self.opaque and not self.zeros

    @property
    def units(self) -> frozenset[Unit]:
        """The distinct units of what is in it; more than one is a mixture."""
        return frozenset(c.unit for c in self.contributions)

    @property
    def is_scaled(self) -> bool:
        """Whether any contribution still carries a loss scale."""
        return any(c.unit.is_scaled for c in self.contributions)

    @property
    def micros(self) -> tuple[int, ...]:
        """The distinct micro-batches in it, in order of arrival."""
        return tuple(dict.fromkeys(c.micro for c in self.contributions))

    def times(self, factor: Unit, sign: int = 1) -> Buffer:
        """Every contribution multiplied (or divided) by a factor."""
        return replace(
            self, contributions=tuple(replace(c, unit=c.unit.times(factor, sign)) for c in self.contributions)
        )

    def unscaled_by(self, factor: Unit) -> Buffer:
        """With those contributions multiplied by a factor that carry the scale which it divides out."""
        return replace(
            self,
            contributions=tuple(
                replace(c, unit=c.unit.times(factor))
                if any(c.unit.scaled_by(scaler) > 0 for scaler, _ in factor.scale)
                else c
                for c in self.contributions
            ),
        )

    def marked(self, mark: str) -> Buffer:
        """With one more mark, unless it is empty."""
        return self if self.is_empty else replace(self, marks=self.marks | {mark})


EMPTY = Buffer()


@dataclass(frozen=True, slots=True)
class State:
    """All gradient buffers by owner, and the phases by (scaler, optimizer); absent means empty and READY.

    `primed` holds the scalers whose `scale` has ever been called: torch refuses to use the others.  `unchecked`
    holds the (scaler, optimizer) whose `unscale_` found no gradient to check: torch refuses to step them.  `reached`
    holds the owners that a backward has ever reached: of the others, nobody knows whether they have gradients.
    """

    buffers: Mapping[str, Buffer] = field(default_factory=lambda: MappingProxyType({}))
    phases: Mapping[tuple[str, str], str] = field(default_factory=lambda: MappingProxyType({}))
    primed: frozenset[str] = frozenset()
    unchecked: frozenset[tuple[str, str]] = frozenset()
    reached: frozenset[str] = frozenset()

    def buffer(self, owner: str) -> Buffer:
        """One owner's buffer."""
        return self.buffers.get(owner, EMPTY)

    def phase(self, scaler: str, optimizer: str) -> str:
        """READY, UNSCALED or STEPPED."""
        return self.phases.get((scaler, optimizer), READY)

    def recorded(self, scaler: str) -> bool:
        """Whether the scaler has unscaled or stepped anything since its last update."""
        return any(key[0] == scaler and key not in self.unchecked for key in self.phases)

    def has_none(self, owner: str) -> bool:
        """Whether all of an owner's gradients are certainly None, so that a scaler has nothing to check."""
        return self.buffer(owner).is_none and owner in self.reached

    def may_be_primed(self, scaler: str) -> bool:
        """Whether the scaler has scaled something, as far as can be seen: unseen code may have used it."""
        return scaler in self.primed or any(buffer.opaque for buffer in self.buffers.values())

    def _with_buffers(self, changes: Mapping[str, Buffer]) -> State:
        return replace(self, buffers=MappingProxyType({**self.buffers, **changes}))

    def _with_phase(self, scaler: str, optimizer: str, phase: str) -> State:
        return replace(self, phases=MappingProxyType({**self.phases, (scaler, optimizer): phase}))


class Effect(NamedTuple):
    """What an event left behind, and torch's message where it would have raised."""

    state: State
    refused: str = ""


def apply(state: State, event: ev.Event, index: int = 0) -> Effect:
    """The state after an event; `index` is the event's place in its trace."""
    match event:
        case ev.Backward():
            return Effect(_backward(state, event, index))
        case ev.Unscale():
            return _unscale(state, event)
        case ev.Step():
            return _step(state, event)
        case ev.Update():
            return _update(state, event)
        case ev.Build(kind="scaler", role=scaler):
            # A new object: it knows nothing of what the old one under this name was doing.
            return Effect(replace(_forget(state, scaler), primed=state.primed - {scaler}))
        case ev.ZeroGrad(owners=owners, to_none=to_none):
            return Effect(state._with_buffers({o: _zeroed(state.buffer(o), to_none) for o in owners}))
        case ev.Differentiate(loss=loss):
            scalers = {s for unit in loss.parts for s, _ in unit.scale}
            return Effect(replace(state, primed=state.primed | scalers))
        case ev.Clip(owners=owners):
            return Effect(_mark(state, owners, "clipped"))
        case ev.Edit(effect="multiply", owners=owners, factor=factor, latest=True):
            return Effect(state._with_buffers({o: state.buffer(o).unscaled_by(factor) for o in owners}))
        case ev.Edit(effect="multiply", owners=owners, factor=factor):
            return Effect(state._with_buffers({o: state.buffer(o).times(factor) for o in owners}))
        case ev.Edit(effect=effect, owners=owners):
            mark = {"shift": "shifted", "hide": "hidden"}.get(effect, effect)
            return Effect(_mark(state, owners, mark))
        case ev.Read(owners=owners):
            return Effect(_mark(state, owners, "read"))
        case ev.Reduce(owners=owners):
            return Effect(_mark(state, owners, "reduced"))
        case ev.Escape(roles=roles):
            return Effect(
                state._with_buffers(
                    {
                        o: replace(state.buffer(o), opaque=True)
                        for o in roles
                        if not o.startswith(("S:", "M:"))
                    }
                )
            )
        case _:
            return Effect(state)


def _mark(state: State, owners: tuple[str, ...], mark: str) -> State:
    return state._with_buffers({o: state.buffer(o).marked(mark) for o in owners})


def _backward(state: State, event: ev.Backward, index: int) -> State:
    changes = {}
    for owner in event.reaches:
        buffer = state.buffer(owner)
        added = tuple(
            Contribution(event.micro, unit, index, event.synced, owner in event.assumed, event.loss.reduction)
            for unit in event.loss.parts
        )
        changes[owner] = replace(buffer, contributions=buffer.contributions + added)
    primed = state.primed | {s for unit in event.loss.parts for s, _ in unit.scale}
    reached = state.reached.union(event.reaches)
    return replace(state._with_buffers(changes), primed=primed, reached=reached)


def _divide_out(state: State, scaler: str, optimizer: str) -> State:
    return state._with_buffers({optimizer: state.buffer(optimizer).times(Unit(((scaler, 1),)), -1)})


def _zeroed(buffer: Buffer, to_none: bool) -> Buffer:
    return EMPTY if to_none or buffer.is_none else Buffer(zeros=True)


def _forget(state: State, scaler: str) -> State:
    """A scaler with no phase of any optimizer."""
    phases = {key: phase for key, phase in state.phases.items() if key[0] != scaler}
    unchecked = frozenset(key for key in state.unchecked if key[0] != scaler)
    return replace(state, phases=MappingProxyType(phases), unchecked=unchecked)


def _unprimed(method: str) -> str:
    return (
        f"Attempted {method} but _scale is None.  This may indicate your script did not use "
        "scaler.scale(loss or outputs) earlier in the iteration."
    )


def _unscale(state: State, event: ev.Unscale) -> Effect:
    key, phase = (event.scaler, event.optimizer), state.phase(event.scaler, event.optimizer)
    if not state.may_be_primed(event.scaler):
        return Effect(state, _unprimed("unscale_"))
    if phase == UNSCALED:
        return Effect(state, "unscale_() has already been called on this optimizer since the last update().")
    if phase == STEPPED:
        return Effect(state, "unscale_() is being called after step().")
    after = _divide_out(state, *key)._with_phase(*key, UNSCALED)
    if state.has_none(event.optimizer):
        after = replace(after, unchecked=after.unchecked | {key})
    return Effect(after)


def _step(state: State, event: ev.Step) -> Effect:
    buffer = state.buffer(event.optimizer)
    if event.scaler is None:
        return Effect(state._with_buffers({event.optimizer: replace(buffer, stepped=not buffer.is_empty)}))
    key, phase = (event.scaler, event.optimizer), state.phase(event.scaler, event.optimizer)
    if not state.may_be_primed(event.scaler):
        return Effect(state, _unprimed("step"))
    if phase == STEPPED:
        return Effect(state, "step() has already been called since the last update().")
    if key in state.unchecked or (phase == READY and state.has_none(event.optimizer)):
        return Effect(state, "No inf checks were recorded for this optimizer.")
    after = state if phase == UNSCALED else _divide_out(state, *key)
    done = replace(after.buffer(event.optimizer), stepped=not buffer.is_empty)
    return Effect(after._with_buffers({event.optimizer: done})._with_phase(*key, STEPPED))


def _update(state: State, event: ev.Update) -> Effect:
    if not state.may_be_primed(event.scaler):
        return Effect(state, _unprimed("update"))
    if not event.explicit and not state.recorded(event.scaler):
        return Effect(state, "No inf checks were recorded prior to update.")
    return Effect(_forget(state, event.scaler))
