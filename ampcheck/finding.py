"""A finding: what is reported, with the witness that shows it and, after a replay, the replay's verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ampcheck.events import Site
from ampcheck.notebook import Cells
from ampcheck.rule import Severity
from ampcheck.trace import Trace

__all__ = [
    "Applicability",
    "Edit",
    "Failure",
    "Finding",
    "Fix",
    "Outcome",
    "Replay",
    "Report",
    "Verdict",
    "Witness",
]

Verdict = Literal["certain", "possible"]
Outcome = Literal["confirmed", "refuted", "inconclusive"]
Applicability = Literal["safe", "unsafe"]


@dataclass(frozen=True, slots=True)
class Witness:
    """The run that shows a fault: its trace, the offending record and the other records of the story."""

    trace: Trace
    record: int
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """What the replay measured.  `figures` are by observable; `text` is one line for people."""

    outcome: Outcome
    device: str
    figures: dict[str, float | int | str] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` takes the place of what stands at `site`; an empty site is a place between two characters."""

    site: Site
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that remove a finding, in order of place and apart from each other.

    *safe*: checked again, the finding is gone and nothing else has come, and the replay found the loop right.
    *unsafe*: checked again as well, but not proven, or not what everybody would want; `why` says which.
    """

    title: str
    edits: tuple[Edit, ...]
    applicability: Applicability = "unsafe"
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place; `of_loop`: the loop is to blame, not the helper whose line it may be."""

    code: str
    name: str
    severity: Severity
    verdict: Verdict
    site: Site
    message: str
    condition: str = ""
    hint: str = ""
    witness: Witness | None = None
    replay: Replay | None = None
    of_loop: bool = False
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A path that could not be analysed, and why."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check: findings in order of place, failures, and how many files were analysed.

    `notebooks` leads from the places in a notebook's module to its cells, for each with findings, by path.
    `silenced` are findings that a comment in the source keeps out of `findings`, `known` those that a baseline does.
    """

    findings: tuple[Finding, ...] = ()
    failures: tuple[Failure, ...] = ()
    files: int = 0
    notebooks: Mapping[str, Cells] = field(default_factory=dict)
    silenced: tuple[Finding, ...] = ()
    known: tuple[Finding, ...] = ()
