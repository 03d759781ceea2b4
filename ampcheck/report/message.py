"""What is said of a finding apart from its place: the sentence, the way out and the replay's verdict."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.finding import Finding, Replay
from ampcheck.report.line import Line, plain
from ampcheck.report.summary import NOWHERE

__all__ = ["message", "remarks", "replayed"]

OUTCOMES = {
    "confirmed": "error",
    "confirmed (library model)": "error",
    "refuted": "good",
    "inconclusive": "warning",
}


def message(finding: Finding) -> str:
    """The sentence, with the condition under which it is true."""
    return f"{finding.message} (when {finding.condition})" if finding.condition else finding.message


def remarks(finding: Finding) -> Iterator[str]:
    """What may stand below the sentence, a line each."""
    if finding.hint:
        yield f"fix: {finding.hint}"
    if finding.replay:
        yield plain(replayed(finding.replay))
    if finding.verdict == "possible":
        yield "possible: it depends on what the code does not settle"


def replayed(replay: Replay) -> Line:
    """What the replay measured, and its verdict."""
    said = f": {replay.text}" if replay.text else ""
    device = f" ({replay.device})" if replay.device != NOWHERE else ""
    return (
        (f"replay{device}{said} — ", ""),
        (replay.outcome, OUTCOMES.get(replay.outcome, "")),
    )
