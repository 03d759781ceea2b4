"""A fault is confirmed by its own figures, whatever else is wrong with its loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ampcheck import registry
from ampcheck.check import check_paths
from ampcheck.events import Clip
from ampcheck.finding import Finding
from ampcheck.fixes import propose
from ampcheck.fixes.proof import prove
from ampcheck.replay import Observed, apart, replay
from ampcheck.replay.apart import Others, judge_apart
from ampcheck.replay.isolating import Isolation
from ampcheck.replay.judge import Verdict

LOOP = """
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, accum_steps: int, epochs: int):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y){division}
            scaler.scale(loss).backward()
{inside}            if (i + 1) % accum_steps == 0{tail}:
{boundary}                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
"""
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
FLUSHED, DIVIDED = " or i + 1 == len(loader)", " / accum_steps"

SOURCES = {
    # clipped before unscale_, and not divided by K: M/S whatever the loss was divided by
    "undivided": LOOP.format(division="", inside="", tail=FLUSHED, boundary=" " * 16 + CLIP),
    # clipped before unscale_, in every micro-batch: both faults are the same call's
    "inside": LOOP.format(division=DIVIDED, inside=" " * 12 + CLIP, tail=FLUSHED, boundary=""),
    # clipped before unscale_, and an epoch's leftover is carried into the next one
    "leftover": LOOP.format(division=DIVIDED, inside="", tail="", boundary=" " * 16 + CLIP),
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Finding]:
    folder = tmp_path_factory.mktemp("loops")
    for name, source in SOURCES.items():
        (folder / f"{name}.py").write_text(source)
    found = replay(check_paths([str(folder)]).findings, "cpu")
    return {(Path(f.site.path).stem, f.code): f for f in found}


def text(finding: Finding) -> str:
    assert finding.replay is not None
    assert finding.replay.outcome == "confirmed"
    return finding.replay.text


def test_each_fault_has_figures_of_its_own(findings):
    """Undivided, a window of K = 3 is three times too large; clipped while scaled, the norm is M/S (TRUTH, row 1)."""
    undivided = findings["undivided", "AMP305"]
    assert "(× K)" in text(undivided)
    assert "with AMP101 of the same loop left out" in text(undivided)
    assert undivided.replay.figures["factor"] == "K"
    assert "norm at step 0.125 = M/S, expected 1.0" in text(findings["undivided", "AMP101"])


def test_what_cannot_be_told_apart_is_named(findings):
    assert text(findings["inside", "AMP101"]).endswith("AMP203 of the same loop may take part in it")
    assert text(findings["inside", "AMP203"]).endswith("AMP101 of the same loop may take part in it")


def test_a_leftover_takes_no_part_in_the_first_windows(findings):
    assert ("leftover", "AMP307") in findings
    assert "AMP307" not in text(findings["leftover", "AMP101"])


def test_the_rules_see_the_altered_run(findings):
    """No clip is left, the gradients are those of a loop without one, and the finding is still there."""
    witness = findings["undivided", "AMP305"].witness
    rules = {rule.code: rule for rule in registry.load()}
    isolated = Isolation(rules.values()).of(witness.trace, rules["AMP305"], witness.record)
    assert isolated.left_out == ("AMP101",)
    assert any(witness.trace.of(Clip))
    assert not any(isolated.trace.of(Clip))
    assert not any("clipped" in b.marks for r in isolated.trace.records for b in r.after.buffers.values())
    assert not list(rules["AMP101"].check(isolated.trace))
    (violation,) = rules["AMP305"].check(isolated.trace)
    assert violation.record == isolated.places[witness.record]


@pytest.mark.parametrize(
    ("alone", "together", "outcome", "words"),
    [
        ("confirmed", "confirmed", "confirmed", "alone; with AMP101 of the same loop left out"),
        ("refuted", "confirmed", "inconclusive", "only together with AMP101 of the same loop: whole"),
        ("inconclusive", "refuted", "refuted", "whole"),
    ],
)
def test_what_shows_only_with_another_fault_is_inconclusive(alone, together, outcome, words, monkeypatch):
    verdicts = {"alone": Verdict(alone, "alone"), "whole": Verdict(together, "whole")}
    monkeypatch.setattr(apart, "judge", lambda job, execute: verdicts[job])
    job: Any = "whole"
    verdict = judge_apart(job, "alone", Others(left_out=("AMP101",)), lambda *_: Observed())  # type: ignore[arg-type]
    assert verdict.outcome == outcome
    assert verdict.text.endswith(words)


def test_a_fix_is_proven_beside_a_fault_that_it_does_not_mend(findings):
    (proven,) = prove(propose([findings["undivided", "AMP101"]]))
    assert proven.finding.fix is not None
    assert proven.finding.fix.applicability == "safe"


def test_what_a_fix_has_moved_is_not_left_out_of_its_proof(findings):
    """Otherwise the clip that 203's fix has moved, still before `unscale_`, would be gone from the proof."""
    (proven,) = prove(propose([findings["inside", "AMP203"]]))
    fix = proven.finding.fix
    assert fix is not None
    assert fix.applicability == "unsafe"
    assert "as long as the loop has AMP101, too" in fix.why
