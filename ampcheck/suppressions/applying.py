"""What suppression comments do to the findings of their file, and what is wrong with the comments (AMP901)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ampcheck import registry
from ampcheck.events import Site
from ampcheck.finding import Finding
from ampcheck.source import Source
from ampcheck.suppressions.comments import Complaint, Suppression, suppressions_in
from ampcheck.suppressions.misread import is_worth_reading
from ampcheck.suppressions.statements import Statements, statements_of

__all__ = ["NOT_TO_BE_KNOWN", "UNUSED", "Sifted", "Suppressions", "suppressions_of"]

UNUSED = "AMP901"
NOT_TO_BE_KNOWN = frozenset({"AMP900", UNUSED, "AMP903"})
"""What no comment and no baseline is written for: files that were not analysed, and comments themselves."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """Findings that are still to be reported, complaints about comments among them, and those that are silenced."""

    kept: Sequence[Finding] = ()
    silenced: Sequence[Finding] = ()


@dataclass(frozen=True, slots=True)
class Suppressions:
    """The comments of one file."""

    path: str
    suppressions: Sequence[Suppression] = ()
    complaints: Sequence[Complaint] = ()
    statements: Statements = field(default_factory=Statements)

    def sift(self, findings: Iterable[Finding], ran: frozenset[str]) -> Sifted:
        """Part the findings of the file; `ran` are the codes of the rules that were looked for.

        A comment about a rule that was not is left in peace: it may have its use another time.
        """
        kept: list[Finding] = []
        silenced: list[Finding] = []
        used: set[Suppression] = set()
        for finding in findings:
            by = self._by(finding)
            used |= by
            (silenced if by else kept).append(finding)
        for complaint in self._complaints(ran, used):
            (silenced if self._by(complaint) else kept).append(complaint)
        return Sifted(kept, silenced)

    def _by(self, finding: Finding) -> set[Suppression]:
        site = finding.site
        statement = self.statements.around(site.line)
        last = min(site.end_line, statement.last) if statement is not None else site.line
        return {s for s in self.suppressions if s.silences(finding.code, site.line, last)}

    def _complaints(self, ran: frozenset[str], used: set[Suppression]) -> Iterator[Finding]:
        for complaint in self.complaints:
            yield from self._complaint(complaint)
        for one in self.suppressions:
            if one not in used and one.codes <= ran and UNUSED not in one.codes:
                said = f"`{one.rule}` is silenced here, and nothing is found: remove it from the comment"
                yield from self._complaint(Complaint(one.line, one.column, one.end_column, said))

    def _complaint(self, about: Complaint) -> Iterator[Finding]:
        site = Site(self.path, about.line, about.column, about.line, about.end_column)
        for rule in registry.load():
            if rule.code == UNUSED:
                yield Finding(
                    rule.code, rule.name, rule.severity, "certain", site, about.message, hint=rule.hint
                )


def suppressions_of(source: Source) -> Suppressions | None:
    """The comments of a file; None where there are none."""
    if not is_worth_reading(source.text):
        return None
    statements = statements_of(source.text)
    found = list(suppressions_in(statements))
    if not found:
        return None
    return Suppressions(
        source.path,
        [one for one in found if isinstance(one, Suppression)],
        [one for one in found if isinstance(one, Complaint)],
        statements,
    )
