"""The order of a correct training step, stated once.

**Terms.**  A *micro-batch* is one turn of the innermost loop; a *backward* adds its gradient to the buffers of the
optimizers that it reaches.  A *window* of an optimizer is the backwards whose gradients one of its steps uses; the
place where a window ends is its *closing*.  Closings with no backward between them form a *group*: they share
one joint clip.  Groups of one micro-batch whose optimizers share a scaler share one ``update``.

**The order.**  For every window::

    backward × K          each loss divided by K, scaled once; under DDP unsynchronised on all but the last micro-batch
    unscale_              only where something looks at or changes the gradients before the step
    reads, edits, clip    in the order in which the loop has them
    step                  through the scaler that scaled the loss; each optimizer of the group
    update                once, after the last step that shares the scaler
    zero_grad             so that the next window starts empty
    schedule              only if the step was not skipped
    average               of the new weights

**The question.**  Given a loop that may be wrong, what would it do if it kept to this order?  Two things are the
loop's own affair and are taken from it: its *practice* (which optimizers, whether it clips, what it reads, which
schedules it has), and its *windows*, as far as more than one division into windows is defensible (a leftover tail may
be carried, dropped or flushed).  Everything else (units, order, count) comes from here and never from a rule.

**An example.**  K = 2, one optimizer, ``clip_grad_norm_`` before ``scaler.step``, `unscale_` forgotten::

    user        backward backward            clip step update zero
    reference   backward backward   unscale_ clip step update zero

The closing is after the second backward and takes both; the practice holds the clip; `unscale_` is there because the
clip looks at the gradients.  Were there no clip, the two would be equal, and nothing would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ampcheck import events as ev
from ampcheck.trace import Guard, Record

__all__ = ["Act", "Closing", "Extra", "Practice", "correct"]

Extra = ev.Clip | ev.Edit | ev.Read | ev.Reduce


@dataclass(frozen=True, slots=True)
class Act:
    """One event to be executed, at a micro-batch.

    `guards` are evaluated when it is executed, as far as they ask for the scale or for finiteness.  `if_stepped`: only
    where the latest step of these optimizers was not skipped.  `divisor` divides a backward's loss beyond its unit.
    """

    event: ev.Event
    micro: int
    guards: tuple[Guard, ...] = ()
    if_stepped: tuple[str, ...] = ()
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of one window of one optimizer, right after the backward with index `anchor`.

    `takes` are the indices of the backwards whose gradients it uses, each loss divided by `divisor`.  `steps` is false
    where the loop unscales and updates but discards the gradients (the first pass of SAM, a norm that was too large).
    """

    optimizer: str
    anchor: int
    takes: tuple[int, ...]
    divisor: int = 1
    steps: bool = True


@dataclass(frozen=True, slots=True)
class Practice:
    """What a loop does besides scaling, accumulating and stepping, and is free to do.

    `scalers`: by optimizer, none for one that trains without.  `before` and `after` the step: clips, reads and edits
    with the owners that they are meant for.  `schedules` run once per update, of the optimizer they name last;
    `averages` after a step of the optimizer given, `guarded` those that are skipped with it.  `tests` of finiteness
    stand before an optimizer's step where it has no scaler.  `kept` are indices of
    records that stay where they are.  `undivided` are backwards whose normalisation is not a matter of K.
    `late`: gradients are divided by K before the step, instead of losses.  `world`: ranks are reduced by hand, so that
    a factor of W is in place.  `saved` are scalers whose state is taken, which is after their update.
    `averaged`: no loss is a sum over a micro-batch's items, whatever the loop takes.
    """

    scalers: Mapping[str, str]
    before: tuple[Extra, ...] = ()
    after: tuple[Extra, ...] = ()
    schedules: tuple[ev.ScheduleStep, ...] = ()
    averages: tuple[tuple[ev.AverageUpdate, str], ...] = ()
    tests: Mapping[str, tuple[Guard, ...]] = field(default_factory=dict)
    guarded: frozenset[str] = frozenset()
    kept: frozenset[int] = frozenset()
    undivided: frozenset[int] = frozenset()
    late: bool = False
    world: bool = False
    free: tuple[str, ...] = ()
    saved: frozenset[str] = frozenset()
    averaged: bool = False


@dataclass(slots=True)
class _Group:
    """Closings after one backward, and the scalers to update when they are done."""

    closings: list[Closing]
    micro: int
    site: ev.Site
    updates: list[str] = field(default_factory=list)

    @property
    def optimizers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.optimizer for c in self.closings))


def correct(
    records: Sequence[Record], practice: Practice, closings: Sequence[Closing], update_each: bool = False
) -> Iterator[Act]:
    """The acts of the correct loop that has this practice and closes its windows there.

    `update_each`: update after every group, even where groups of one micro-batch share a scaler; as good as one
    update as long as no group's gradients were scaled before another's update.
    """
    groups = _groups(records, practice, closings, update_each)
    takers: dict[int, list[Closing]] = {}
    for closing in closings:
        for index in closing.takes:
            takers.setdefault(index, []).append(closing)
    last = _last_backwards(records, closings)
    dirty: set[str] = set()
    for record in records:
        if record.index in practice.kept:
            if isinstance(record.event, ev.Step) and record.event.optimizer in dirty:
                yield Act(ev.ZeroGrad(owners=(record.event.optimizer,), site=record.event.site), record.micro)
                dirty.discard(record.event.optimizer)
            yield Act(_as_meant(record.event), record.micro, record.guards)
        if not isinstance(record.event, ev.Backward):
            continue
        taking = takers.get(record.index, [])
        opened = tuple(c.optimizer for c in taking if c.takes[0] == record.index and c.optimizer in dirty)
        if opened:
            yield Act(ev.ZeroGrad(owners=opened, site=record.event.site), record.micro)
            dirty -= set(opened)
        dirty |= set(record.event.reaches)
        yield _backward(record, record.event, practice, taking, not taking or record.index in last)
        if record.index in groups:
            group = groups[record.index]
            yield from _close(group, practice)
            dirty -= {*group.optimizers, *practice.free}


def _as_meant(event: ev.Event) -> ev.Event:
    """An event that stays in its place, as a correct loop would have it."""
    if isinstance(event, ev.ResultTest):
        return replace(event, asks="outcome")
    if isinstance(event, ev.Differentiate):
        parts = tuple(replace(unit, scale=()) for unit in event.loss.parts)
        return replace(event, loss=replace(event.loss, parts=parts))
    return event


def _groups(
    records: Sequence[Record], practice: Practice, closings: Sequence[Closing], update_each: bool
) -> dict[int, _Group]:
    by_index = {r.index: r for r in records}
    groups: dict[int, _Group] = {}
    for closing in closings:
        record = by_index[closing.anchor]
        group = groups.setdefault(closing.anchor, _Group([], record.micro, record.event.site))
        group.closings.append(closing)
    ordered = [groups[anchor] for anchor in sorted(groups)]
    for scaler in dict.fromkeys(practice.scalers.values()):
        sharing = [g for g in ordered if any(practice.scalers.get(o) == scaler for o in g.optimizers)]
        pending: set[str] = set()
        for place, group in enumerate(sharing):
            following = sharing[place + 1] if place + 1 < len(sharing) else None
            pending |= set(group.optimizers)
            shared = following and following.micro == group.micro and pending.isdisjoint(following.optimizers)
            if update_each or not shared:
                group.updates.append(scaler)
                pending.clear()
    return groups


def _last_backwards(records: Sequence[Record], closings: Sequence[Closing]) -> frozenset[int]:
    """The backwards of each window's last micro-batch: in its last iteration, each place once."""
    by_index = {r.index: r for r in records}
    last: set[int] = set()
    for closing in closings:
        taken = [by_index[t] for t in closing.takes]
        ending = {r.event.site: r.index for r in taken if r.iteration == taken[-1].iteration}
        last.update(ending.values())
    return frozenset(last)


def _backward(
    record: Record,
    event: ev.Backward,
    practice: Practice,
    taking: list[Closing],
    synced: bool,
) -> Act:
    owners = [c.optimizer for c in taking] or [o for o in event.reaches if o in practice.scalers]
    scaler = next((practice.scalers[o] for o in owners if o in practice.scalers), None)
    free_of_k = record.index in practice.undivided
    parts = tuple(
        ev.Unit(
            ((scaler, 1),) if scaler else (),
            unit.window if free_of_k else 0,
            unit.world if practice.world else max(unit.world, 0),
            unit.other,
        )
        for unit in event.loss.parts
    )
    divisor = 1 if free_of_k or practice.late else max((c.divisor for c in taking), default=1)
    forwards = tuple(replace(f, bypassed=False, synced=synced) for f in event.loss.forwards)
    reduction = "mean" if practice.averaged else event.loss.reduction
    loss = replace(event.loss, parts=parts, forwards=forwards, reduction=reduction)
    return Act(replace(event, loss=loss, synced=synced), record.micro, divisor=divisor)


def _close(group: _Group, practice: Practice) -> Iterator[Act]:
    """unscale_, reads and edits and clip, step, update, zero, schedule, average."""
    yield from _closing_acts(group, practice)
    micro = group.micro
    yield Act(ev.ZeroGrad(owners=(*group.optimizers, *practice.free), site=group.site), micro)
    stepping = {c.optimizer for c in group.closings if c.steps}
    for schedule in practice.schedules:
        if schedule.optimizers[-1] in stepping:
            yield Act(schedule, micro, if_stepped=schedule.optimizers)
    for average, optimizer in practice.averages:
        if optimizer in stepping:
            guarded = average.average in practice.guarded
            yield Act(average, micro, if_stepped=(optimizer,) if guarded else ())


def _closing_acts(group: _Group, practice: Practice) -> Iterator[Act]:
    optimizers, site, micro = group.optimizers, group.site, group.micro

    def meant(extra: Extra) -> tuple[str, ...]:
        return tuple(o for o in extra.owners if o in optimizers)

    looked_at = {o for extra in practice.before for o in meant(extra)}
    looked_at |= {c.optimizer for c in group.closings if not c.steps}
    for optimizer in optimizers:
        if optimizer in looked_at and optimizer in practice.scalers:
            yield Act(ev.Unscale(scaler=practice.scalers[optimizer], optimizer=optimizer, site=site), micro)
    for closing in group.closings:
        if practice.late and closing.divisor > 1:
            share = ev.Edit(
                effect="multiply", owners=(closing.optimizer,), factor=ev.Unit(window=-1), site=site
            )
            yield Act(share, micro)
    for extra in practice.before:
        if meant(extra) or (extra.owners and set(extra.owners) <= set(practice.free)):
            owners = tuple(o for o in extra.owners if o in optimizers or o in practice.free)
            yield Act(replace(extra, owners=owners), micro)
    for closing in group.closings:
        if closing.steps:
            scaler = practice.scalers.get(closing.optimizer)
            guards = practice.tests.get(closing.optimizer, ())
            yield Act(ev.Step(optimizer=closing.optimizer, scaler=scaler, site=site), micro, guards)
    for extra in practice.after:
        if meant(extra):
            yield Act(replace(extra, owners=meant(extra)), micro)
    for scaler in group.updates:
        yield Act(ev.Update(scaler=scaler, site=site), micro)
        if scaler in practice.saved:
            yield Act(ev.StateDict(scaler=scaler, site=site), micro)
