"""Fixes: edits that remove a finding, checked by analysing the edited files again and proven by the replay.

`propose` finds them and needs no torch; `prove` says which of them are safe, and does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from ampcheck.finding import Finding, Fix
from ampcheck.fixes.case import Candidate, Cannot, Case
from ampcheck.fixes.syntax import Module
from ampcheck.fixes.table import STRATEGIES
from ampcheck.fixes.trial import Accepted, Trial
from ampcheck.settings import Nearest
from ampcheck.source import Unreadable, decode, read_bytes

__all__ = ["FIXABLE", "UNPROVEN", "Proposal", "propose"]

FIXABLE = frozenset(STRATEGIES)
"""The codes that have strategies."""

UNPROVEN = "not proven yet: the replay decides, and needs torch"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A finding with its fix, or with the reason why it has none or nothing could prove it."""

    finding: Finding
    accepted: Accepted | None = None
    reason: str = ""


def propose(
    findings: Iterable[Finding],
    settings: Nearest | None = None,
    on_finding: Callable[[str], None] | None = None,
) -> list[Proposal]:
    """A fix for each finding that has one, unsafe as long as it is not proven; the findings in the same order.

    Every candidate is checked by analysing the files that it edits again, twice: expect a few times as long for each
    finding as the check took for its file.  `settings` are those of the check.
    """
    trial = Trial.of(settings)
    modules = _Modules()
    proposals = []
    for finding in findings:
        if on_finding is not None:
            on_finding(finding.site.path)
        proposals.append(_proposal(finding, trial, modules))
    return proposals


def _proposal(finding: Finding, trial: Trial, modules: _Modules) -> Proposal:
    reasons: list[str] = []
    for strategy in STRATEGIES.get(finding.code, ()):
        try:
            for candidate in strategy(Case(finding, modules)):
                try:
                    accepted = trial.accept(finding, candidate)
                except Cannot as refusal:
                    reasons.append(f"{candidate.title}: {refusal}")
                    continue
                return Proposal(replace(finding, fix=_fix(candidate)), accepted)
        except Cannot as refusal:
            reasons.append(str(refusal))
        except Exception as error:  # a bug of ours in one fix must not cost the others
            reasons.append(f"ampcheck failed on this fix ({type(error).__name__}); please report it")
    if not reasons:
        return Proposal(finding, reason=f"there is no fix for {finding.name}")
    return Proposal(finding, reason="; ".join(dict.fromkeys(reasons)))


def _fix(candidate: Candidate) -> Fix:
    edits = tuple(edit for draft in candidate.drafts.values() for edit in draft.edits())
    return Fix(candidate.title, edits, "unsafe", candidate.doubt or UNPROVEN)


class _Modules:
    """The files that may be edited, parsed once."""

    def __init__(self) -> None:
        self._known: dict[str, Module | None] = {}

    def __call__(self, path: str) -> Module | None:
        if path not in self._known:
            self._known[path] = None
            if not path.startswith("<"):
                with suppress(Unreadable):
                    self._known[path] = Module.of(decode(path, read_bytes(path)))
        return self._known[path]
