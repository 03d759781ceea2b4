"""The end of an epoch as the end of a window: ``if (i + 1) % k == 0 or i + 1 == len(loader)``."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ampcheck.fixes.case import Cannot, Place
from ampcheck.fixes.draft import Draft

__all__ = ["TAIL", "Counter", "counter", "with_tail"]

TAIL = "it also steps on what is left over at the end of an epoch, and needs a loader that has a length"


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of ``for i, batch in enumerate(loader)``: the batches that have passed, and the last one's test."""

    passed: str
    last: str


def counter(place: Place) -> Counter:
    """The counter of the innermost loop around a place; raises `Cannot` where it has none."""
    module = place.module
    loop = next((a for a in module.enclosing(place.statement) if isinstance(a, ast.For)), None)
    call = loop.iter if loop else None
    if (
        loop is not None
        and isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "enumerate"
        and isinstance(loop.target, ast.Tuple)
        and isinstance(loop.target.elts[0], ast.Name)
        and loop.target.elts[0].id != "_"
    ):
        name = loop.target.elts[0].id
        given = [*call.args[1:], *(k.value for k in call.keywords if k.arg == "start")]
        start = given[0].value if given and isinstance(given[0], ast.Constant) else None if given else 0
        if start in (0, 1) and call.args:
            passed = f"{name} + 1" if start == 0 else name
            return Counter(
                f"({passed})" if start == 0 else name, f"{passed} == len({module.text(call.args[0])})"
            )
    raise Cannot("the loop has no counter to ask")


def with_tail(draft: Draft, place: Place) -> Draft:
    """The draft with the test around a place true for an epoch's last batch as well."""
    module = place.module
    gate = next((a for a in module.enclosing(place.statement) if isinstance(a, ast.If)), None)
    if gate is None or place.statement not in gate.body:
        raise Cannot("the step waits for no test")
    last = counter(Place(module, gate)).last
    line, (end, stop) = gate.test.lineno, module.end(gate.test)
    if line != end or not isinstance(gate.test, ast.Compare):
        raise Cannot("the test of the window's end is not a comparison on one line")
    text = module.lines[line - 1]
    return draft.replace(line, f"{text[: stop - 1]} or {last}{text[stop - 1 :]}")
