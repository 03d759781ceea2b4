"""Explorations kept from one check to the next: a program that runs as it did before is not run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

from ampcheck import program as p
from ampcheck.events import Event, Site
from ampcheck.running.exploring import Exploration, explore
from ampcheck.running.shape import Shape, Shapes
from ampcheck.trace import Guard, Record, Trace

__all__ = ["Explorations"]


@dataclass(slots=True)
class Explorations:
    """The last exploration of each program, by its file and how widely it was explored."""

    pulse: Callable[[], None] | None = None
    _shapes: Shapes = field(default_factory=Shapes)
    _last: dict[tuple[str, int | None], tuple[Shape, Exploration]] = field(default_factory=dict)
    _used: set[tuple[str, int | None]] = field(default_factory=set)

    def explore(self, program: p.Program, most: int | None = None) -> Exploration:
        """What `ampcheck.running.explore` finds, of the last exploration where the program still runs like that."""
        try:
            shape = self._shapes.of(program)
        except RecursionError:  # for the runs to say
            return explore(program, most, self.pulse)
        key = program.main.path, most
        known = self._last.get(key)
        places = known[0].places_in(shape) if known is not None else None
        found = known[1] if known is not None and places is not None else explore(program, most, self.pulse)
        if places:
            found = _Moving(places).exploration(found)
        self._last[key] = shape, found
        self._used.add(key)
        return found

    def forget_unused(self) -> None:
        """Forget what the checks since the last call had no use for."""
        self._shapes.forget_unused()
        self._last = {key: last for key, last in self._last.items() if key in self._used}
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
