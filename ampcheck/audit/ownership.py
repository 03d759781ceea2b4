"""Who does what to each optimizer's gradients: who scales, who unscales, where it is clipped, who steps when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ampcheck import events as ev
from ampcheck.audit.answers import Evidence
from ampcheck.spans import is_stray
from ampcheck.timeline.cells import place_of
from ampcheck.timeline.loops import Loop
from ampcheck.trace import Record, Trace

__all__ = ["Ownership", "ownership"]


@dataclass(frozen=True, slots=True)
class Ownership:
    """One optimizer of one loop, with the lines of each part of its step."""

    optimizer: str
    scales: tuple[Evidence, ...]
    unscales: tuple[Evidence, ...]
    clips: tuple[Evidence, ...]
    steps: tuple[Evidence, ...]
    updates: tuple[Evidence, ...]
    schedules: tuple[Evidence, ...]


def ownership(loop: Loop) -> tuple[Ownership, ...]:
    """One row for each optimizer that the loop's usual run steps."""
    run = loop.runs[0]
    records, trace = run.records, run.trace
    stepped = dict.fromkeys(r.event.optimizer for r in records if isinstance(r.event, ev.Step))
    return tuple(_row(trace, records, optimizer) for optimizer in stepped)


def _row(trace: Trace, records: tuple[Record, ...], optimizer: str) -> Ownership:
    scalers = {
        r.event.scaler for r in records if isinstance(r.event, ev.Step) and r.event.optimizer == optimizer
    }
    role = trace.roles.get(optimizer)
    name = role.text if role else optimizer
    kind = f" ({role.detail.rsplit('.', 1)[-1]})" if role and role.detail else ""
    return Ownership(
        name + kind,
        _distinct(_scales(trace, records, optimizer)),
        _distinct(
            Evidence(place_of(r), "unscale_")
            for r in records
            if isinstance(r.event, ev.Unscale) and r.event.optimizer == optimizer
        ),
        _distinct(
            Evidence(place_of(r), _clip(r.event))
            for r in records
            if isinstance(r.event, ev.Clip) and optimizer in r.event.owners
        ),
        _distinct(_steps(records, optimizer, role.engine if role else "")),
        _distinct(
            Evidence(place_of(r), "update")
            for r in records
            if isinstance(r.event, ev.Update) and r.event.scaler in scalers
        ),
        _distinct(
            Evidence(place_of(r), f"{_role(trace, r.event.scheduler)}{_tests(r)}")
            for r in trace.records
            if isinstance(r.event, ev.ScheduleStep) and optimizer in (r.event.optimizers or (optimizer,))
        ),
    )


def _scales(trace: Trace, records: tuple[Record, ...], optimizer: str) -> Iterator[Evidence]:
    """Who scales the losses whose gradients the steps use."""
    for backward in _used(trace, records, optimizer):
        assert isinstance(backward.event, ev.Backward)
        scalers = {s for unit in backward.event.loss.parts for s, _ in unit.scale}
        for scaler in sorted(scalers):
            role = trace.roles.get(scaler)
            kind = f" ({role.detail})" if role and role.detail else ""
            yield Evidence(place_of(backward), f"{_role(trace, scaler)}{kind}")
        if not scalers:
            yield Evidence(place_of(backward), "nobody")


def _used(trace: Trace, records: tuple[Record, ...], optimizer: str) -> Iterator[Record]:
    for record in records:
        if isinstance(record.event, ev.Step) and record.event.optimizer == optimizer:
            for contribution in record.before.buffer(optimizer).contributions:
                stray = is_stray(trace, contribution, optimizer, record)
                if 0 <= contribution.record < len(trace.records) and not stray:
                    yield trace.records[contribution.record]


def _steps(records: tuple[Record, ...], optimizer: str, engine: str) -> Iterator[Evidence]:
    for record in records:
        if isinstance(record.event, ev.Step) and record.event.optimizer == optimizer:
            how = f"through {record.event.scaler}" if record.event.scaler else "by itself"
            by = f", by the {engine} engine" if engine else ""
            yield Evidence(place_of(record), f"{how}{by}{_tests(record) or _every(record, optimizer)}")


def _every(record: Record, optimizer: str) -> str:
    count = len(record.before.buffer(optimizer).micros)
    return f", after {count} micro-batches" if count > 1 else ", on every micro-batch"


def _tests(record: Record) -> str:
    tests = [g.text if g.holds else f"not ({g.text})" for g in record.guards if g.boundary or g.varying]
    return f", if {' and '.join(tests)}" if tests else ""


def _clip(clip: ev.Clip) -> str:
    by = {"hand": " by hand", "hook": " in a hook", "model": " by FSDP"}.get(clip.by, "")
    bound = "" if clip.threshold is None else f" {clip.threshold:g}"
    return f"by {clip.style}{bound}{by}" + (", one parameter at a time" if clip.per_parameter else "")


def _role(trace: Trace, role: str) -> str:
    return trace.roles[role].text if role in trace.roles else role


def _distinct(found: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys(found))
