"""Traces as jobs for the subprocess: plain data that holds the user's script and every reference's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ampcheck.events import Checkpoint
from ampcheck.replay.jumps import with_jump_at_boundary
from ampcheck.replay.references import excerpt, references, until, user_acts, whole
from ampcheck.replay.restarts import told_apart
from ampcheck.replay.resuming import resumed
from ampcheck.replay.script import cast, corrected, sharding, write
from ampcheck.replay.unfolding import unfold
from ampcheck.rule import Habit
from ampcheck.trace import Trace

__all__ = ["job"]


def job(
    trace: Trace, oracle: Iterable[str], needed: Sequence[int] = (), contests: Iterable[Habit] = ()
) -> dict[str, Any]:
    """A job that judges a trace by an oracle; `needed` are the records that an excerpt must hold, the witness first.

    `contests` are the habits of the loop that no reference may have.
    """
    if needed and isinstance(trace.records[needed[0]].event, Checkpoint):
        return resumed(trace, oracle)
    trace = told_apart(trace)
    oracle = tuple(oracle)
    contested = frozenset(contests)
    if needed:
        trace = with_jump_at_boundary(trace, needed[0])
    unfolded = unfold(trace)
    user, normal = unfolded.user, unfolded.normal
    loop, _ = references(normal, normal.records, contested)
    members = {
        **cast(user, loop),
        "tests": sorted(unfolded.tests),
        "items": "sum" in contested,
        "half": "unscaled" in contested,
    }

    shards = oracle == ("shards",)
    places = [unfolded.places.get(n, 0) for n in needed]

    def scripts(stop: int | None) -> dict[str, Any]:
        _, acceptable = references(normal, until(normal, stop), contested)
        mine, right = (sharding(user, members, correct) for correct in (False, True)) if shards else ([], [])
        return {
            "user": mine + write(user, user_acts(until(user, stop)), members),
            "references": [(r.name, right + corrected(write(normal, r.acts, members))) for r in acceptable],
        }

    return {
        "members": members,
        "excerpt": scripts(excerpt(user, *places)),
        "whole": scripts(whole(user, *places)),
        "oracle": list(oracle),
        "bfloat16": loop.bfloat16,
    }
