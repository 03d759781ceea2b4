"""A run that is interrupted and resumed from its checkpoint: what the checkpoint lacks begins anew.

The loop runs as it does, ends, and runs once more with the models and optimizers as they were.  The user's scalers are
built again; in the reference they come out of the checkpoint, and the loop, right or wrong, is the same otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ampcheck.protocol import Act
from ampcheck.replay.references import references, until, user_acts, whole
from ampcheck.replay.script import Cast, Op, cast, write
from ampcheck.replay.unfolding import unfold
from ampcheck.trace import Trace

__all__ = ["resumed"]


def resumed(trace: Trace, oracle: Iterable[str]) -> dict[str, Any]:
    """A job that judges a checkpoint, to which the witness belongs, by a resumed run."""
    unfolded = unfold(trace)
    user, normal = unfolded.user, unfolded.normal
    loop, _ = references(normal, normal.records)
    members = {**cast(user, loop), "tests": sorted(unfolded.tests)}
    stop = whole(user)
    acts = list(user_acts(until(user, stop)))
    _, acceptable = references(normal, until(normal, whole(normal)))
    scripts = {
        "user": _twice(user, acts, members, lost=members["scalers"]),
        "references": [
            ("the scaler's state is resumed too", _twice(user, acts, members, lost=[])),
            *((r.name, _twice(normal, r.acts, members, lost=[])) for r in acceptable),
        ],
    }
    return {
        "members": members,
        "excerpt": scripts,
        "whole": scripts,
        "oracle": list(oracle),
        "bfloat16": loop.bfloat16,
    }


def _twice(trace: Trace, acts: Sequence[Act], members: Cast, lost: list[str]) -> list[Op]:
    """A script, a restart that loses the state of some scalers, and the script again with later micro-batches."""
    later = max((act.micro for act in acts), default=0) + 1
    again = [replace(act, micro=act.micro + later) for act in acts]
    restart = {"do": "resume", "lost": lost, "micro": later}
    return [*write(trace, acts, members), restart, *write(trace, again, members)]
