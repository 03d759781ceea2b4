"""What the rules found in a file's runs, kept from one check to the next for as long as the runs stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ampcheck.finding import Finding
from ampcheck.rule import Rule
from ampcheck.trace import Trace
from ampcheck.verdict import findings_of

__all__ = ["Judgements"]


@dataclass(slots=True)
class Judgements:
    """The latest runs of each file with what was found in them."""

    _held: dict[str, tuple[list[Rule], list[Trace], list[Finding]]] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    def of(self, path: str, traces: Sequence[Trace], rules: Sequence[Rule]) -> list[Finding]:
        """What the rules find in all runs of a file."""
        self._used.add(path)
        known = self._held.get(path)
        asked = list(rules), list(traces)
        if known is None or known[:2] != asked:
            known = self._held[path] = *asked, findings_of(traces, rules)
        return known[2]

    def forget_unused(self) -> None:
        """Forget files that nobody asked about since the last call."""
        self._held = {path: known for path, known in self._held.items() if path in self._used}
        self._used = set()
