"""What one check leaves for the next, where the same files are checked again and again: in an editor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ampcheck.judgements import Judgements
from ampcheck.readings import KeptReadings
from ampcheck.running import Explorations
from ampcheck.trace import Trace
from ampcheck.words import KeptWords

__all__ = ["Memory"]


@dataclass(slots=True)
class Memory:
    """Files read, programs run, runs judged, and the words of imports; `traces` are those that a file was judged by.

    It never changes what a check finds.
    """

    readings: KeptReadings = field(default_factory=KeptReadings)
    explorations: Explorations = field(default_factory=Explorations)
    judgements: Judgements = field(default_factory=Judgements)
    words: KeptWords = field(default_factory=KeptWords)
    traces: dict[str, Sequence[Trace]] = field(default_factory=dict)

    def watch(self, pulse: Callable[[], None]) -> None:
        """Have something called every now and then, which may raise to give a check up."""
        self.explorations.pulse = pulse

    def forget_unused(self) -> None:
        """Forget what the checks since the last call had no use for."""
        self.readings.forget_unused()
        self.explorations.forget_unused()
        self.judgements.forget_unused()
