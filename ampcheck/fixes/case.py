"""A finding as the strategies see it: its witness, and the files that the witness runs through.

A *strategy* proposes candidates: drafts that may be the fix.  It takes what is to be moved, and how a scaler or
optimizer is spelled, from the events of the witness, and raises `Cannot` where the loop is not one that it can mend.
Whether a candidate is right is not its business: `ampcheck.fixes.trial` checks the edited files again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ampcheck.events import Site
from ampcheck.finding import Finding, Witness
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.syntax import Module
from ampcheck.trace import Record, Trace

__all__ = ["Candidate", "Cannot", "Case", "Place", "Strategy", "candidate", "chain"]


class Cannot(Exception):
    """A strategy does not apply; the message says why, as a part of a sentence."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to mend a finding.  `doubt` says why it is unsafe whatever the replay finds; "" where it may be safe."""

    title: str
    drafts: Mapping[str, Draft]
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A statement that an event comes from, and the file that it stands in."""

    module: Module
    statement: ast.stmt


@dataclass(frozen=True, slots=True)
class Case:
    """One finding to be mended.  `modules` gives the file at a path, None where there is none to be edited."""

    finding: Finding
    modules: Callable[[str], Module | None]

    @property
    def witness(self) -> Witness:
        """The finding's witness."""
        if self.finding.witness is None:
            raise Cannot("there is no run that shows the fault")
        return self.finding.witness

    @property
    def trace(self) -> Trace:
        """The witness's run."""
        return self.witness.trace

    @property
    def record(self) -> Record:
        """The record that is reported."""
        return self.trace.records[self.witness.record]

    @property
    def story(self) -> tuple[Record, ...]:
        """The reported record and the others of the story, in order of the run."""
        told = sorted({self.witness.record, *self.witness.steps})
        return tuple(self.trace.records[i] for i in told)

    def module(self, path: str) -> Module:
        """A file that may be edited."""
        found = self.modules(path)
        if found is None:
            raise Cannot(f"it happens inside {path.strip('<>')}, which is not this project's to change")
        return found

    def place(self, site: Site) -> Place:
        """The statement at a place."""
        module = self.module(site.path)
        statement = module.statement(site)
        if statement is None:
            raise Cannot(f"no statement is found at {site.path}:{site.line}")
        return Place(module, statement)

    def meet(self, one: Record, other: Record) -> tuple[Place, Place]:
        """Where two events' ways part: the two statements, in one function, that lead to the one and the other."""
        mine, its = chain(one), chain(other)
        for a, b in zip(mine, its, strict=False):
            if a != b:
                first, second = self.place(a), self.place(b)
                if first.module is second.module and first.module.function(first.statement) is (
                    second.module.function(second.statement)
                ):
                    return first, second
                break
        raise Cannot("both happen in one call")


def chain(record: Record) -> tuple[Site, ...]:
    """The calls that lead to an event and its own place, outermost first."""
    site = record.event.site
    return record.calls if record.calls and record.calls[-1] == site else (*record.calls, site)


Strategy = Callable[[Case], Iterator[Candidate]]


def candidate(title: str, *drafts: Draft, doubt: str = "") -> Candidate:
    """A candidate of these drafts."""
    return Candidate(title, {draft.path: draft for draft in drafts}, doubt)
