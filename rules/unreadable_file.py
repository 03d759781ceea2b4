"""AMP900 unreadable-file."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace


class UnreadableFile(Rule):
    """A file could not be read as Python.

    ## What it does
    Reports a file that is not Python, cannot be decoded, or is called `.ipynb` and is no notebook. Other files are
    still checked. In a notebook it reports each cell that is not Python, magics aside; the other cells are still
    checked. Where no word of a training step stands in the cell, that is a note.

    ## Why is this bad
    What was not analysed must not look clean.

    ## Known problems
    None known.
    """

    code = "AMP900"
    name = "unreadable-file"
    severity = "error"
    unobservable = "it is about the analysis, not about the training"
    hint = "repair the file, or leave it out of the paths that are checked"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield nothing: the analysis itself makes this finding."""
        yield from ()
