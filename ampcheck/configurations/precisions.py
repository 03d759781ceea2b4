"""Configured precisions as a trace, so that a rule can judge them like anything else."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.configurations.answers import Configurations
from ampcheck.events import Precision, Site
from ampcheck.gradients import State
from ampcheck.trace import Record, Trace

__all__ = ["precision_traces"]


def precision_traces(configured: Configurations, path: str) -> Iterator[Trace]:
    """One trace with all that is said of the precision around the file at `path`, if anything is."""
    said = [c for c in configured.found if c.fp16 is not None or c.bf16 is not None]
    # What lies beside the code comes first: it is reported at the place in the code that contradicts it.
    said.sort(key=lambda c: (c.site is not None, c.kind == "deepspeed"))
    records = tuple(
        Record(
            index,
            Precision(
                site=c.site or Site(path, 1, 1, 1, 1),
                owner=c.owner,
                kind=c.kind,
                fp16=c.fp16,
                bf16=c.bf16,
                within=c.within,
                sure=c.site is not None,
            ),
            State(),
            State(),
            0,
            0,
        )
        for index, c in enumerate(said)
    )
    if records:
        yield Trace("the configuration", records, {})
