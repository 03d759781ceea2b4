"""Which functions are one epoch of several: whoever calls them, where it cannot be seen, calls them again and again.

Such a root is run twice, so that what one epoch leaves to the next can be seen, like in a loop over epochs.
"""

from __future__ import annotations

import re

from ampcheck import program as p
from ampcheck.running.layout import Layout
from ampcheck.running.naming import names_start

__all__ = ["first_count", "is_one_epoch"]

EPOCH = re.compile(r"(^|_)epoch($|_)|Epoch($|[A-Z_])")
NUMBER = re.compile(
    r"^((cur|current|this|i|idx|the)_?)?epoch_?(i|id|idx|index|no|nr|num|number)?$", re.IGNORECASE
)


def is_one_epoch(root: p.FunctionDef, layout: Layout) -> bool:
    """Whether a function's name says so, or it is told which epoch it is; and no loop over epochs is in it."""
    if any(isinstance(n, (p.For, p.While)) and n in layout.outer for n in p.walk(*root.body)):
        return False
    named = EPOCH.search(root.name) is not None
    return named or any(q.name and not q.star and NUMBER.match(q.name) for q in root.parameters)


def first_count(parameter: str, epoch: int, batches: int) -> int:
    """Where a counter that the caller hands in starts: it goes on from epoch to epoch, unless it is called a start."""
    if NUMBER.match(parameter):
        return epoch
    return 0 if names_start(parameter) else epoch * batches
