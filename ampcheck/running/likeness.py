"""Whether two layouts say the same of what two programs of one shape share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from ampcheck import program as p
from ampcheck.running.layout import Layout, Root
from ampcheck.running.shape import Number, Shape

__all__ = ["told_by"]

Place = tuple[str, int, int]
"""A node of a program: its module, its part and its number there."""


def told_by(layout: Layout, shape: Shape, without: Collection[Number]) -> dict[str, object]:
    """What a layout says of the nodes outside of some parts, by their places in the shape."""
    places: dict[p.Node, Place] = {
        node: (path, number, at)
        for path, parts in shape.modules.items()
        for number, part in enumerate(parts)
        if (path, number) not in without
        for at, node in enumerate(part.nodes)
    }
    # The sites of outer loops are those of `outer`.
    names = (f.name for f in fields(layout) if f.name != "outer_sites")
    return {name: _told(getattr(layout, name), places) for name in names}


def _told(value: Any, places: Mapping[p.Node, Place]) -> object:
    match value:
        case set():
            return frozenset(places[node] for node in value if node in places)
        case dict():
            return {places[node]: _told(of, places) for node, of in value.items() if node in places}
        case list():
            return [_told(root, places) for root in value]
        case Root():
            return places.get(value.function), places.get(value.cls)  # type: ignore[arg-type]
        case p.Node():
            return places.get(value)
        case _:
            return value
