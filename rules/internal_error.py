"""AMP903 internal-error."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace


class InternalError(Rule):
    """The analysis itself failed on a file.

    ## What it does
    Reports a file on which ampcheck broke down. Other files are still checked.

    ## Why is this bad
    What was not analysed must not look clean.

    ## Known problems
    None known.
    """

    code = "AMP903"
    name = "internal-error"
    severity = "error"
    unobservable = "it is about the analysis, not about the training"
    hint = "report it with the file, or the part of it that is needed"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield nothing: the analysis itself makes this finding."""
        yield from ()
