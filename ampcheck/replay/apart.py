"""One fault's verdict where its loop has others: from the run in which they are left out, if there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ampcheck.replay.judge import Execute, Job, Verdict, is_whole, judge

__all__ = ["Others", "judge_apart"]


@dataclass(frozen=True, slots=True)
class Others:
    """The codes of a loop's other faults: those left out of the run alone, those that had to stay in it, and of these
    the ones that are in its first windows already."""

    left_out: Sequence[str] = ()
    beside: Sequence[str] = ()
    early: Sequence[str] = ()

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Others:
        """Those of a job in plain data."""
        return cls(data.get("left_out", ()), data.get("beside", ()), data.get("early", ()))


def judge_apart(whole: Job, alone: Job | None, others: Others, execute: Execute) -> Verdict:
    """Decide one finding by the run `alone`, or by the `whole` one where nothing can be left out.

    What shows only together with the other faults is inconclusive: it may be theirs.
    """
    verdict = judge(alone or whole, execute)
    if alone is not None and verdict.outcome != "confirmed":
        together = judge(whole, execute)
        if together.outcome == "confirmed":
            text = f"shows only together with {_names(others.left_out)} of the same loop: {together.text}"
            return Verdict("inconclusive", text)
        return together
    if verdict.outcome != "confirmed":
        return verdict
    text = verdict.text
    if others.left_out:
        text += f"; with {_names(others.left_out)} of the same loop left out"
    beside = others.beside if is_whole(verdict) else others.early
    if beside:
        text += f"; {_names(beside)} of the same loop may take part in it"
    return replace(verdict, text=text)


def _names(codes: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(codes))
