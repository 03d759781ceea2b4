"""Iterators over parameters, which can be gone through only once.

``model.parameters()``, ``filter(...)``, ``chain(...)`` and generator expressions give an iterator; an optimizer's
constructor, a clip, a loop or ``list`` consumes it, and whoever gets it next finds nothing.  One that is made again
(``model.parameters()`` in each iteration) is a new value and has nothing to do with the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampcheck.events import Site
from ampcheck.running import values as v
from ampcheck.running.machine import Machine

__all__ = ["consume", "iterator_over", "kept", "renewed", "spent"]


def iterator_over(
    machine: Machine, parameters: v.Parameters, sources: Iterable[v.Value] = ()
) -> v.Parameters:
    """A new iterator over parameters; to go through it is to go through the sources that it is made from."""
    cursors = tuple(cursor for source in sources for cursor in _cursors(source))
    cursor = v.Cursor(cursors, guessed=any(c.guessed for c in cursors), trial=machine.trial)
    return v.Parameters(parameters.models, parameters.partial, parameters.each, parameters.text, cursor)


def kept(parameters: v.Parameters) -> v.Parameters:
    """The same parameters in a list, which can be gone through again and again."""
    if parameters.cursor is None:
        return parameters
    return v.Parameters(parameters.models, parameters.partial, parameters.each, parameters.text)


def consume(machine: Machine, value: v.Value | None, site: Site) -> None:
    """Go through all iterators in a value (``[{"params": it}]`` included)."""
    for cursor in _cursors(value) if value is not None else ():
        _use(machine, cursor, site)


def _use(machine: Machine, cursor: v.Cursor, site: Site) -> None:
    if "spent" in cursor.state:
        return
    cursor.at = machine.outside if machine.program.is_model(site.path) else site
    if machine.trial is not None and cursor.trial is not machine.trial:
        machine.store(cursor.state, "spent", v.TRUE)
    else:
        cursor.state["spent"] = v.TRUE
    for source in cursor.sources:
        _use(machine, source, site)


def spent(value: v.Value | None) -> v.Cursor | None:
    """The iterator behind a value where nothing is left of it: of a chain, when all its parts are spent."""
    cursors = list(_cursors(value)) if value is not None else []
    found = [_spent(cursor) for cursor in cursors]
    return found[0] if found and all(found) and not _has_more(value) else None


def _spent(cursor: v.Cursor) -> v.Cursor | None:
    if "spent" in cursor.state:
        return cursor
    found = [_spent(source) for source in cursor.sources]
    return found[0] if found and all(found) else None


def renewed(value: v.Value) -> v.Value:
    """An iterator that may be made anew where this run does not look."""
    for cursor in _cursors(value):
        cursor.guessed = True
    return value


def _has_more(value: v.Value | None) -> bool:
    """Whether a value holds anything else than iterators."""
    match value:
        case v.Parameters(cursor=cursor):
            return cursor is None
        case v.Items(inner=inner):
            return any(_has_more(part) for part in inner)
        case _:
            return True


def _cursors(value: v.Value | None) -> Iterator[v.Cursor]:
    match value:
        case v.Parameters(cursor=v.Cursor() as cursor):
            yield cursor
        case v.Items(inner=inner):
            for part in inner:
                yield from _cursors(part)
        case v.Seq(items=items):
            for item in items:
                yield from _cursors(item)
        case v.DictValue(items=entries) if "params" in entries:
            yield from _cursors(entries["params"])
        case _:
            pass
