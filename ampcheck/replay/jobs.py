"""Traces as jobs for the subprocess: plain data that holds the user's script and every reference's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ampcheck.replay.references import excerpt, references, user_acts
from ampcheck.replay.script import cast, write
from ampcheck.trace import Record, Trace

__all__ = ["job"]


def job(trace: Trace, oracle: Iterable[str], needed: Sequence[int] = ()) -> dict[str, Any]:
    """A job that judges a trace by an oracle; `needed` are the records that an excerpt must hold."""
    whole, part = trace.records, excerpt(trace, *needed)
    loop, _ = references(trace, whole)
    members = cast(trace, loop)

    def scripts(records: tuple[Record, ...]) -> dict[str, Any]:
        _, acceptable = references(trace, records)
        return {
            "user": write(trace, user_acts(trace, records), members),
            "references": [(r.name, write(trace, r.acts, members)) for r in acceptable],
        }

    return {
        "members": members,
        "excerpt": scripts(part),
        "whole": scripts(whole) if part != whole else scripts(part),
        "oracle": list(oracle),
        "bfloat16": loop.bfloat16,
    }
