"""AMP902 analysis-truncated."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace


class AnalysisTruncated(Rule):
    """The analysis reached one of its limits.

    ## What it does
    Names the function that has more runs, events or calls than the analysis explores, and what it left out.

    ## Why is this bad
    Faults in the part that was not explored are not found. The limits are counts, never seconds, so that the result is
    the same on every machine.

    ## Known problems
    None known.
    """

    code = "AMP902"
    name = "analysis-truncated"
    severity = "note"
    unobservable = "it is about the analysis, not about the training"
    hint = "split the function, or check it by hand"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield nothing: the analysis itself makes this finding."""
        yield from ()
