"""A trace: one run of one training loop, as events with the gradients' state before and after each.

A run fixes every choice that the code leaves open.  *Invariant* choices (``use_amp``) hold for the whole run,
*varying* ones (``isfinite(loss)``) per micro-batch; both travel with the records that they guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from ampcheck.events import Event, Site, SkipTest
from ampcheck.gradients import State

__all__ = ["Guard", "Record", "Role", "Trace", "Window"]

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Guard:
    """A test that an event depends on: its text, how it came out, and what is known of it.

    `skip` is set where the test compares two readings of the loss scale, `boundary` where it involves the window
    length (``(i + 1) % k == 0``), `finite` where it asks whether a loss or gradient is finite.  A `doubtful` one is
    settled outside of the code and of whoever starts it (by a library's version): nothing certain rests on it.
    """

    text: str
    holds: bool
    site: Site
    varying: bool = False
    boundary: bool = False
    finite: bool = False
    skip: SkipTest | None = None
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One event of a run.

    `before` and `after` are the gradients around it, `refused` is torch's message where it would have raised,
    `iteration` tells the innermost loop iteration apart, `epoch` the outermost one, and `calls` are the places
    of the calls that led here, outermost first; `loop` is the place of the innermost loop.
    """

    index: int
    event: Event
    before: State
    after: State
    micro: int
    epoch: int
    iteration: tuple[int, ...] = ()
    guards: tuple[Guard, ...] = ()
    calls: tuple[Site, ...] = ()
    refused: str = ""
    loop: Site | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """An object that plays a part.  `known` is false when only its name tells what it is.

    `kind`: scaler, optimizer, scheduler, model, average.  `detail`: the class, or for a model its wrapper ("ddp",
    "fsdp", "fsdp1", "fsdp1?", "fsdp1 NO_SHARD", "fsdp2": see `events.Build`).
    `models`: whose parameters an optimizer holds, empty when unknown.  `partial`: it holds only some of them.
    `engine`: the library's engine that owns it ("deepspeed-zero1"), "" for nobody's.
    `given`: the caller handed it in.
    """

    id: str
    kind: Literal["scaler", "optimizer", "scheduler", "model", "average"]
    text: str
    known: bool = True
    detail: str = ""
    models: tuple[str, ...] = ()
    partial: bool = False
    site: Site | None = None
    engine: str = ""
    given: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The accumulation window that the code declares.

    `length` is K in this run, `number` K in the code where it is a number there; `text` is how the code spells it;
    `literal` says that K is a number in the code;
    `declared` lists how it is declared: "division" (of the loss or gradients), and "step", "zero", "schedule",
    "sync", "clip", "average" for events under a boundary test of K, "loop" for ``for _ in range(K)``.
    `told`: the project's settings say that this is the window's length.
    """

    length: int
    text: str
    literal: bool = False
    declared: frozenset[str] = frozenset()
    told: bool = False
    number: int | None = None

    @property
    def named(self) -> str:
        """How a message names K: a number as it is, anything else as code, in backquotes."""
        return self.text if self.text.isdigit() or "`" in self.text else f"`{self.text}`"


@dataclass(frozen=True, slots=True)
class Trace:
    """One run: its root (function or module), the choices made, the roles and the records in order.

    `complete` is false when the root only holds the tail of a step (its caller does the rest); `repeated` when the
    root is taken to be called for each micro-batch, although no caller can be seen.
    """

    root: str
    records: tuple[Record, ...]
    roles: dict[str, Role]
    choices: tuple[Guard, ...] = ()
    window: Window | None = None
    complete: bool = True
    repeated: bool = False

    @property
    def condition(self) -> str:
        """The invariant choices as people read them: ``use_amp and not debug``; empty when there are none."""
        return " and ".join(
            g.text if g.holds else f"not ({g.text})" if " " in g.text else f"not {g.text}"
            for g in self.choices
            if not g.varying
        )

    def of(self, kind: type[E]) -> Iterator[tuple[Record, E]]:
        """The records whose event is of a kind, with the event."""
        for record in self.records:
            if isinstance(record.event, kind):
                yield record, record.event

    def between(self, start: int, stop: int) -> tuple[Record, ...]:
        """The records after index `start` and before index `stop`."""
        return self.records[start + 1 : stop]

    def roles_of(self, kind: str) -> tuple[Role, ...]:
        """The roles of a kind, in order of appearance."""
        return tuple(r for r in self.roles.values() if r.kind == kind)
