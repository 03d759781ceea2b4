"""Faults that float16 and a disabled scaler alone show."""

from __future__ import annotations

from ampcheck import registry
from ampcheck.finding import Replay
from ampcheck.replay import replay
from tests.replay.correct_loops import CORRECT
from tests.tracing import backward, finding, internal, loop, raw_step, step, trace, update, zero

HALF = trace(loop([backward(scaler=None), raw_step(), zero()]))
READS = [
    trace(loop([backward(), step(), update(), internal(name), zero()])) for name in ("_scale", "_enabled")
]
WRITES = trace(loop([backward(), step(), update(), internal("_scale", written=True), zero()]))


def settled() -> list[Replay]:
    rules = {rule.code: rule for rule in registry.built_in()}
    place = next(i for i, r in enumerate(READS[0].records) if type(r.event).__name__ == "Internal")
    findings = [
        finding(HALF, 1, "AMP607"),
        *(finding(reading, place, "AMP122") for reading in READS),
        finding(WRITES, place, "AMP122"),
        finding(CORRECT["clipped"], 1, "AMP607"),
    ]
    return [f.replay for f in replay(findings, "cpu", rules=rules.values()) if f.replay]


def test_each_has_its_own_scenario():
    half, scale, enabled, written, scaled = settled()
    assert half.outcome == "confirmed"
    assert half.text.startswith("gradient at step (0, 0), expected (")
    assert half.text.endswith("of gradients that float16 cannot hold")
    assert half.figures["gradient"] == 0.0
    assert 0 < float(half.figures["gradient expected"]) < 2**-24
    assert scaled.outcome == "refuted"
    assert scale.outcome == "confirmed"
    assert "object has no attribute '_scale', with enabled=False" in scale.text
    assert (enabled.outcome, written.outcome) == ("inconclusive", "inconclusive")
