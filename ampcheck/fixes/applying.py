"""Many fixes, applied in rounds: what does not touch goes together, the rest waits and is looked for anew.

Everything happens in memory; the caller writes the result.  A round takes one fix of each training loop at most, so
that the last one of a loop was proven with all the others in place.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ampcheck.check import check_paths
from ampcheck.finding import Finding
from ampcheck.fixes import FIXABLE, Proposal, propose
from ampcheck.fixes.case import Cannot
from ampcheck.fixes.draft import Draft, together
from ampcheck.fixes.proof import prove
from ampcheck.fixes.trial import Trial, contents, must_be_better, said
from ampcheck.settings import Nearest
from ampcheck.source import unsaved

__all__ = ["Applied", "apply"]

MOST_ROUNDS = 20
ELSEWHERE = "the change would bring a finding in another file"


@dataclass(slots=True)
class Applied:
    """What became of some findings: those that are fixed, what is known of the others, and the new contents by path."""

    fixed: list[Finding] = field(default_factory=list)
    left: list[Proposal] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)


def apply(
    findings: Sequence[Finding],
    files: Sequence[str],
    settings: Nearest | None = None,
    *,
    unsafe: bool = False,
    on_finding: Callable[[str], None] | None = None,
) -> Applied:
    """Fix findings in memory.  `files` are all those of the check: none of them may be worse off.

    Unsafe fixes are left out unless they are asked for.
    """
    done = Applied()
    wanted = [f for f in findings if f.code in FIXABLE]
    for _ in range(MOST_ROUNDS):
        with unsaved(done.contents):
            done.left = propose(wanted, settings, on_finding)
            done.left = done.left if unsafe else prove(done.left)
            chosen = [p for p in done.left if _is_applicable(p, unsafe)]
            if not chosen:
                break
            taken, new = _most(chosen, files, settings)
            if not taken:
                stand = [replace(p.finding, fix=None) for p in chosen]
                done.left = [p for p in done.left if p not in chosen] + [
                    Proposal(f, reason=ELSEWHERE) for f in stand
                ]
                break
            done.left = [p for p in done.left if p not in taken]
            done.contents |= new
        with unsaved(done.contents):
            still = _still(wanted, files, settings)
        open_ = Counter(map(_name, still))
        for finding in wanted:  # an import serves several
            if open_[_name(finding)] > 0:
                open_[_name(finding)] -= 1
            else:
                done.fixed.append(finding)
        wanted = still
    return done


def _is_applicable(proposal: Proposal, unsafe: bool) -> bool:
    fix = proposal.finding.fix
    return fix is not None and (unsafe or fix.applicability == "safe")


def _most(
    chosen: Sequence[Proposal], files: Sequence[str], settings: Nearest | None
) -> tuple[list[Proposal], dict[str, bytes]]:
    """As many fixes as go together, with the files' new contents; one at least, if any stands the check of all."""
    every = Trial.of(settings).settings
    before = check_paths(files, settings=every).findings
    groups = [_apart(chosen), *([p] for p in chosen)]
    for group in groups:
        drafts = _merged(group)
        if drafts is None:
            continue
        new = contents(drafts)
        with unsaved(new):
            after = check_paths(files, settings=every).findings
        try:
            must_be_better([p.finding for p in group], before, after, drafts)
        except Cannot:
            continue
        return list(group), new
    return [], {}


def _apart(chosen: Sequence[Proposal]) -> list[Proposal]:
    """The first fix of each loop, without those whose lines another has taken."""
    found: list[Proposal] = []
    loops: set[tuple[str, str]] = set()
    for proposal in chosen:
        loop = _loop(proposal.finding)
        if loop not in loops and _merged([*found, proposal]) is not None:
            found.append(proposal)
            loops.add(loop)
    return found


def _loop(finding: Finding) -> tuple[str, str]:
    root = finding.witness.trace.root if finding.witness else ""
    return os.path.abspath(finding.site.path), root


def _merged(proposals: Sequence[Proposal]) -> Mapping[str, Draft] | None:
    """The drafts of several fixes, by path; None where they are in each other's way."""
    by_path: dict[str, list[Draft]] = {}
    for proposal in proposals:
        if proposal.accepted is not None:
            for path, draft in proposal.accepted.candidate.drafts.items():
                by_path.setdefault(path, []).append(draft)
    merged = {path: together(drafts) for path, drafts in by_path.items()}
    return None if None in merged.values() else {p: d for p, d in merged.items() if d is not None}


def _still(wanted: Sequence[Finding], files: Sequence[str], settings: Nearest | None) -> list[Finding]:
    """The findings of a new check that were wanted already; they may stand at other lines now."""
    open_ = Counter(map(_name, wanted))
    found = []
    for finding in check_paths(files, settings=settings).findings:
        if open_[_name(finding)] > 0:
            open_[_name(finding)] -= 1
            found.append(finding)
    return found


def _name(finding: Finding) -> tuple[str, str, str]:
    return (*said(finding), os.path.abspath(finding.site.path))
