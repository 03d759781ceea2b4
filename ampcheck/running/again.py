"""Explorations kept from one check to the next: a program that runs as it did before is not run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

from ampcheck import program as p
from ampcheck.events import Event, Site
from ampcheck.running.exploring import Exploration, explore
from ampcheck.running.layout import Layout, lay_out
from ampcheck.running.likeness import told_by
from ampcheck.running.shape import Number, Shape, Shapes
from ampcheck.trace import Guard, Record, Trace

__all__ = ["Explorations"]


@dataclass(frozen=True, slots=True)
class _Done:
    """An exploration with the shape and layout of its program, and the bodies that its runs have looked at."""

    found: Exploration
    shape: Shape
    layout: Layout
    bodies: frozenset[Number]

    def of(self, program: p.Program, shape: Shape) -> Exploration | None:
        """The exploration as that of another program; None where it need not run alike."""
        differing = self.shape.differing(shape)
        if differing is None or differing & self.bodies:
            return None
        if differing:
            here, there = (self.layout, self.shape), (lay_out(program), shape)
            if told_by(*here, differing) != told_by(*there, differing):
                return None
        places = self.shape.places_in(shape, differing)
        if places is None:
            return None
        return _Moving(places).exploration(self.found) if places else self.found


@dataclass(slots=True)
class Explorations:
    """The last program of each file that was really run, and how widely it was explored."""

    pulse: Callable[[], None] | None = None
    _shapes: Shapes = field(default_factory=Shapes)
    _done: dict[tuple[str, int | None], _Done] = field(default_factory=dict)
    _used: set[tuple[str, int | None]] = field(default_factory=set)

    def explore(self, program: p.Program, most: int | None = None) -> Exploration:
        """What `ampcheck.running.explore` finds, of the last exploration where the program still runs like that."""
        try:
            shape = self._shapes.of(program)
        except RecursionError:  # for the runs to say
            return explore(program, most, self.pulse)
        key = program.main.path, most
        self._used.add(key)
        known = self._done.get(key)
        found = known.of(program, shape) if known is not None else None
        if found is None:
            layout = lay_out(program)
            with p.noting_bodies() as bodies:
                found = explore(program, most, self.pulse, layout)
            self._done[key] = _Done(found, shape, layout, shape.numbers(bodies))
        return found

    def forget_unused(self) -> None:
        """Forget what the checks since the last call had no use for."""
        self._shapes.forget_unused()
        self._done = {key: done for key, done in self._done.items() if key in self._used}
        self._used = set()


class _Moving:
    """Gives everything in an exploration its new place."""

    def __init__(self, places: Mapping[Site, Site]) -> None:
        self.places = places
        self.paths = {site.path for site in places}
        self.guards: dict[int, tuple[tuple[Guard, ...], tuple[Guard, ...]]] = {}

    def exploration(self, found: Exploration) -> Exploration:
        """All of it."""
        return Exploration(
            [self._trace(trace) for trace in found.traces],
            [self._trace(trace) for trace in found.repeats],
            [replace(cut, site=self._site(cut.site)) for cut in found.truncations],
        )

    def _site(self, site: Site) -> Site:
        return self.places[site] if site.path in self.paths else site

    def _maybe(self, site: Site | None) -> Site | None:
        return None if site is None else self._site(site)

    def _trace(self, trace: Trace) -> Trace:
        roles = {name: replace(role, site=self._maybe(role.site)) for name, role in trace.roles.items()}
        records = tuple(map(self._record, trace.records))
        return replace(trace, records=records, roles=roles, choices=self._guards(trace.choices))

    def _record(self, record: Record) -> Record:
        return replace(
            record,
            event=self._event(record.event),
            guards=self._guards(record.guards),
            calls=tuple(map(self._site, record.calls)),
            loop=self._maybe(record.loop),
        )

    def _event(self, event: Event) -> Event:
        values = ((f.name, getattr(event, f.name)) for f in fields(event))
        return replace(event, **{name: self._site(at) for name, at in values if isinstance(at, Site)})

    def _guards(self, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        known = self.guards.get(id(guards))
        if known is None:
            known = guards, tuple(replace(guard, site=self._site(guard.site)) for guard in guards)
            self.guards[id(guards)] = known
        return known[1]
