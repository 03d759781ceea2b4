"""AMP901 unused-suppression."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace


class UnusedSuppression(Rule):
    """A suppression comment silences nothing.

    ## What it does
    Reports each rule in an `ampcheck: ignore[...]` comment that is not found at the comment's place, and a comment
    that cannot be understood: a misspelled `ignore`, no brackets, a rule that does not exist, a line of its own. A
    comment about a rule that this run does not look for is not reported.

    Also reported is what was meant for ampcheck and reaches nobody: `# ampchek: ignore[...]`, `# ampcheck ignore[...]`
    without its colon, a rule of ampcheck's in `# noqa: AMP101` or in another tool's comment. A bare `# noqa` and the
    codes of other tools are none of its business.

    ## Why is this bad
    The fault was repaired and nobody knows, or the comment stands at the wrong place and the fault is still
    reported. It would also silence a fault that comes later.

    ## Known problems
    None known.
    """

    code = "AMP901"
    name = "unused-suppression"
    severity = "warning"
    unobservable = "it is about a comment, not about the training"
    hint = "remove or correct the comment"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield nothing: the suppressions themselves make this finding."""
        yield from ()
