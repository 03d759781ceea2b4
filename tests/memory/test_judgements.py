"""Runs that stay are not judged again; runs that are other ones are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from ampcheck import judgements, registry
from ampcheck.analysis import traces_of
from ampcheck.finding import Finding
from ampcheck.judgements import Judgements
from ampcheck.rule import Rule
from ampcheck.trace import Trace
from ampcheck.verdict import findings_of

LOOP = """
import torch


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that the rules were really asked."""
    done: list[int] = []

    def counted(traces: Sequence[Trace], rules: Iterable[Rule]) -> list[Finding]:
        done.append(1)
        return findings_of(traces, rules)

    monkeypatch.setattr(judgements, "findings_of", counted)
    return done


def test_runs_are_judged_again_when_they_or_the_rules_change(tmp_path: Path, judged: list[int]) -> None:
    file = tmp_path / "train.py"
    file.write_text(LOOP)
    kept, rules, path = Judgements(), registry.load(), str(file)
    first = kept.of(path, traces_of(path), rules)
    assert [f.code for f in first] == ["AMP101"]
    assert kept.of(path, traces_of(path), rules) is first
    assert len(judged) == 1
    file.write_text("# a remark\n" + LOOP)
    assert [f.site.line for f in kept.of(path, traces_of(path), rules)] == [first[0].site.line + 1]
    assert kept.of(path, traces_of(path), [r for r in rules if r.code != "AMP101"]) == []
    assert len(judged) == 3
