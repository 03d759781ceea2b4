"""The choices of a run: how every test comes out that the code leaves open.

Invariant tests keep their value for the run and are explored exhaustively.  Varying ones come out as in an uneventful
run, except for at most one of them a run, which deviates: on every micro-batch, on one inside the first window, or
on the first boundary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ampcheck.running.values import Atom

__all__ = ["Choices", "Deviation", "Pattern"]

Pattern = Literal["always", "inside", "boundary"]
PATTERNS: tuple[Pattern, ...] = ("always", "inside", "boundary")


@dataclass(frozen=True, slots=True)
class Deviation:
    """The one varying test that comes out otherwise than usual, and when."""

    text: str
    pattern: Pattern


@dataclass(slots=True)
class Choices:
    """Decides atoms: first by the script, then as usual; remembers what was asked."""

    script: tuple[bool, ...] = ()
    deviation: Deviation | None = None
    taken: list[bool] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    invariant: dict[str, bool] = field(default_factory=dict)
    varying: dict[str, Atom] = field(default_factory=dict)
    groups: dict[str, object] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)

    def suppose(self, text: str, holds: bool) -> None:
        """An option without its other way: nothing can be learnt from a run that refuses its arguments."""
        self.invariant.setdefault(text, holds)

    def decide(self, atom: Atom, tick: int, window: int, key: str = "") -> bool:
        """How a test comes out in an iteration over batches (numbered from 0), with windows of the given length.

        A varying test is known by its text, or by a `key` where the same text does not mean the same quantity.
        """
        if atom.varying:
            known_atom = self.varying.setdefault(key or atom.text, atom)
            return known_atom.usual != self._deviates(key or atom.text, tick, window)
        known = self.invariant.get(atom.text)
        if known is None:
            known = self._excluded(atom)
        if known is None:
            position = len(self.taken)
            known = self.script[position] if position < len(self.script) else atom.usual
            self.taken.append(known)
            self.asked.append(atom.text)
        if atom.doubtful:
            self.doubtful.add(atom.text)
        if atom.group is not None and known:
            self.groups[atom.group[0]] = atom.group[1]
        self.invariant[atom.text] = known
        return known

    def _excluded(self, atom: Atom) -> bool | None:
        """``dtype == "bfloat16"`` is false once ``dtype == "float16"`` holds."""
        if atom.group is None or atom.group[0] not in self.groups:
            return None
        return bool(self.groups[atom.group[0]] == atom.group[1])

    def _deviates(self, text: str, tick: int, window: int) -> bool:
        if self.deviation is None or self.deviation.text != text:
            return False
        match self.deviation.pattern:
            case "always":
                return True
            case "inside":
                return tick == (1 if window > 2 else 0)
            case "boundary":
                return tick == window - 1
