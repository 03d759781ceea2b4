"""What the static run says of the gradient at a step is what torch measures when the same source is executed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings

from ampcheck.check import traces_of
from ampcheck.events import Step
from ampcheck.gradients import Buffer
from ampcheck.trace import Guard, Trace
from tests.differential.measure import SCALE, Measured, StepSeen, measure
from tests.differential.programs import AMP, NO_AMP, Program, programs

pytestmark = pytest.mark.usefixtures("uncounted")

EXAMPLES = 200

NOT_REFUSED = ("Attempted ", "No inf checks were recorded ")
"""What torch says to a scaler that has scaled or unscaled nothing yet.

The account of gradients goes on there in most cases: AMP104, AMP111 and AMP114 say more of what follows than of that.
"""


def test_units_at_the_step_are_what_torch_measures(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    seen: list[Program] = []
    claims: list[bool] = []

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(programs())
    def agree(program: Program) -> None:
        note(program.source)
        path.write_text(program.source)
        seen.append(program)
        traces = traces_of(str(path))
        for use_amp in (True, False):
            chosen = _most_finite([trace for trace in traces if _is_run(trace, program, use_amp)])
            claims.extend([False] * (not chosen))
            for trace in chosen:
                note(f"run: {trace.condition}")
                measured = measure(program, *_scope(trace), use_amp=use_amp)
                claims.extend(_compare(trace, program, measured))

    agree()
    assert len([program for program in seen if program.is_rich]) * 3 >= len(seen)
    assert sum(claims) >= 0.9 * len(claims)


def _is_run(trace: Trace, program: Program, use_amp: bool) -> bool:
    """Whether the trace is the run of an execution on finite data.

    None is where the runner does not compute the boundary: it takes a modulus that guards no step, zero or update, or
    whole micro-batches, for some interval of the user's own.
    """
    if trace.root != "train" or (program.window > 1 and trace.window is None):
        return False
    guards: list[Guard] = [*trace.choices, *(g for record in trace.records for g in record.guards)]
    return all(_came_out(guard, use_amp) for guard in guards)


def _most_finite(traces: list[Trace]) -> list[Trace]:
    """Those in which a test for finiteness lets most events through: where it fails, it leaves no record."""
    finite = [sum(g.finite for record in trace.records for g in record.guards) for trace in traces]
    return [trace for trace, count in zip(traces, finite, strict=True) if count == max(finite)]


def _came_out(guard: Guard, use_amp: bool) -> bool:
    """Whether a test came out as in the execution; the runner computes boundaries as the execution does."""
    if guard.finite:
        return guard.holds
    known = {AMP: use_amp, NO_AMP: not use_amp}
    return known[guard.text] == guard.holds if guard.text in known else guard.boundary


def _scope(trace: Trace) -> tuple[int, int]:
    """Micro-batches an epoch and epochs of a run, as the runner's small scope has them: 2K + 1, and K = 1 if none."""
    return 2 * (trace.window.length if trace.window else 1) + 1, 2


def _compare(trace: Trace, program: Program, measured: Measured) -> list[bool]:
    """Fail where trace and measurement differ; otherwise say for each step whether the trace claimed anything."""
    if not trace.complete:  # the loop has no backward left: it is taken for the tail of somebody else's step
        return []
    expected: list[StepSeen | None] = []
    refused_at = None
    for record in trace.records:
        if record.refused:
            refused_at = record.event.site.line
            break
        if isinstance(record.event, Step):
            buffer = record.after.buffer(record.event.optimizer)
            factors = _factors(trace, buffer, program.window)
            line, optimizer = record.event.site.line, record.event.optimizer
            expected.append(None if factors is None else StepSeen(line, optimizer, factors))
    note(f"torch: {measured}")
    if measured.raised_at is not None and measured.message.startswith(NOT_REFUSED):
        expected = expected[: len(measured.steps)]
    else:
        assert refused_at == measured.raised_at, measured.message
    assert len(expected) == len(measured.steps)
    for claim, fact in zip(expected, measured.steps, strict=True):
        if claim is not None:
            assert (claim.line, claim.optimizer) == (fact.line, fact.optimizer)
            assert claim.factors == pytest.approx(fact.factors, rel=1e-5)
    return [claim is not None for claim in expected]


def _factors(trace: Trace, buffer: Buffer, window: int) -> dict[int, float] | None:
    """Each micro-batch's factor by the buffer's units; None when the account makes no claim."""
    if buffer.opaque or any(c.assumed or c.unit.other for c in buffer.contributions):
        return None
    length, _ = _scope(trace)
    factors: defaultdict[int, float] = defaultdict(float)
    for contribution in buffer.contributions:
        epoch, turn = trace.records[contribution.record].iteration
        exponent = sum(e for _, e in contribution.unit.scale)
        factors[epoch * length + turn] += SCALE**exponent * float(window) ** contribution.unit.window
    return dict(factors)
