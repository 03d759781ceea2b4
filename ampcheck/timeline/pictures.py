"""What is shown of a loop: one picture of the usual window, or one for each run that shows other faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ampcheck.events import Backward, Step
from ampcheck.finding import Finding
from ampcheck.rule import Habit
from ampcheck.timeline.cells import Cell, cell, drawn
from ampcheck.timeline.columns import micros_of, shown
from ampcheck.timeline.correct import correct
from ampcheck.timeline.loops import Loop, Run
from ampcheck.trace import Record, Trace

__all__ = ["Column", "Picture", "pictures"]

Contests = Mapping[str, tuple[Habit, ...]]


@dataclass(frozen=True, slots=True)
class Column:
    """One micro-batch: its number in the run from 1, the epoch from 1, its events in order.

    `left_out` is how many micro-batches before it are not shown.
    """

    micro: int
    epoch: int
    cells: tuple[Cell, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """A window as the loop has it (`columns`) and in the correct order, which is empty where none can be derived.

    `findings` are those marked in it; `condition` says when the loop runs like this, "" for always.
    """

    columns: tuple[Column, ...]
    correct: tuple[Column, ...]
    findings: tuple[Finding, ...] = ()
    condition: str = ""

    @property
    def agrees(self) -> bool:
        """Whether nothing is wrong with what is shown."""
        return not any(cell.wrong for column in self.columns for cell in column.cells)


@dataclass(slots=True)
class _Draft:
    """A picture in the making: a run, the micro-batches shown, and which rules each record breaks."""

    run: Run
    micros: dict[int, int]
    shown: list[int]
    wrong: dict[int, tuple[str, ...]]
    findings: list[Finding]


def pictures(loop: Loop, contests: Contests) -> tuple[Picture, ...]:
    """The pictures of a loop, the worst fault first; `contests` by the codes of rules (`Rule.contests`)."""
    order = ("error", "warning", "note")
    drafts: list[_Draft] = []
    for finding in sorted(loop.findings, key=lambda f: (order.index(f.severity), f.site)):
        if finding.witness is not None and not any(_joins(draft, finding) for draft in drafts):
            drafts.append(_draft(loop, finding))
    if not drafts and loop.runs:
        run = loop.runs[0]
        micros = micros_of(run.records)
        drafts.append(_Draft(run, micros, shown(run.records, micros, (), _length(run.trace)), {}, []))
    return tuple(_picture(draft, contests) for draft in drafts)


def _draft(loop: Loop, finding: Finding) -> _Draft:
    """A picture of a finding's own run."""
    assert finding.witness is not None
    witness = finding.witness
    run = next((r for r in loop.runs if r.trace is witness.trace), None)
    run = run or Run(witness.trace, 0, len(witness.trace.records))
    micros = micros_of(run.records)
    told = (witness.record, *witness.steps)
    visible = shown(run.records, micros, told, _length(run.trace))
    return _Draft(run, micros, visible, {witness.record: (finding.code,)}, [finding])


def _joins(draft: _Draft, finding: Finding) -> bool:
    """Mark a finding in a picture that shows its event anyway; false where it does not."""
    assert finding.witness is not None
    witness, trace = finding.witness, draft.run.trace
    offending = witness.trace.records[witness.record]
    if witness.trace is trace:
        index = witness.record if draft.micros.get(witness.record) in draft.shown else None
    else:
        alike = (r for r in drawn(trace, draft.run.records) if r.event == offending.event)
        index = next((r.index for r in alike if draft.micros[r.index] in draft.shown), None)
    if index is None:
        return False
    draft.wrong[index] = (*draft.wrong.get(index, ()), finding.code)
    draft.findings.append(finding)
    return True


def _picture(draft: _Draft, contests: Contests) -> Picture:
    trace = draft.run.trace
    mine = tuple(_columns(trace, draft.run.records, draft.micros, draft.shown, draft.wrong))
    right = correct(trace, [habit for f in draft.findings for habit in contests.get(f.code, ())])
    reference: tuple[Column, ...] = ()
    if right is not None:
        micros = {r.index: r.micro for r in right.records}
        epochs = {micro: record.epoch for micro, record in _firsts(draft.run.records).items()}
        reference = tuple(_columns(right, right.records, micros, draft.shown, {}, epochs, placed=False))
    condition = draft.findings[0].condition if draft.findings else _usual(draft.run.trace)
    return Picture(mine, reference, tuple(draft.findings), condition)


def _columns(
    trace: Trace,
    records: Sequence[Record],
    micros: Mapping[int, int],
    visible: Sequence[int],
    wrong: Mapping[int, tuple[str, ...]],
    epochs: Mapping[int, int] | None = None,
    *,
    placed: bool = True,
) -> Iterable[Column]:
    by_micro: dict[int, list[Record]] = {}
    seen = {r.index for r in drawn(trace, records)}
    for record in records:
        if record.index in seen or record.index in wrong:
            by_micro.setdefault(micros[record.index], []).append(record)
    previous: int | None = None
    for micro in visible:
        held = by_micro.get(micro, [])
        cells = [cell(trace, record, wrong.get(record.index, ())) for record in held]
        if not placed:
            cells = [replace(one, place=None) for one in cells]
        epoch = (epochs or {}).get(micro, held[-1].epoch if held else 0)
        skipped = micro - previous - 1 if previous is not None else 0
        yield Column(micro + 1, epoch + 1, tuple(cells), skipped)
        previous = micro


def _firsts(records: Iterable[Record]) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for record in records:
        if isinstance(record.event, Backward | Step):
            found.setdefault(record.micro, record)
    return found


def _length(trace: Trace) -> int:
    return trace.window.length if trace.window else 1


def _usual(trace: Trace) -> str:
    """The options of a run that shows no fault, as far as they are on: what is off does not happen."""
    return " and ".join(g.text for g in trace.choices if g.holds and not g.varying)
