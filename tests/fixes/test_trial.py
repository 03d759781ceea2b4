"""Candidates that are no cure are refused, each for its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.events import Site
from ampcheck.finding import Finding
from ampcheck.fixes import Proposal, propose
from ampcheck.fixes.case import Candidate, Case, candidate
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.table import STRATEGIES
from ampcheck.fixes.trial import said
from tests.fixes.loops import CLIPPED, PREAMBLE


def with_line_before(
    text: str, new: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> Proposal:
    """What becomes of a candidate that puts a line before the finding's."""

    def strategy(case: Case) -> Iterator[Candidate]:
        module = case.module(case.finding.site.path)
        line = case.finding.site.line
        indent = module.lines[line - 1][: -len(module.lines[line - 1].lstrip())]
        yield candidate("try", Draft.of(module).insert([indent + new], before=line))

    monkeypatch.setitem(STRATEGIES, code, (strategy,))
    file = tmp_path / "train.py"
    file.write_text(text)
    (finding,) = [f for f in check_paths([str(file)]).findings if f.code == code]
    (proposal,) = propose([finding])
    return proposal


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("print('clip')", "the finding would stay"),
        ("scaler.unscale_(optimizer", "would not be Python"),
        ("scaler.unscale_(optimizer); scaler.unscale_(optimizer)", "would bring AMP106"),
        ("scaler.unscale_(optimizer); scaler.update()", "would bring AMP"),
        ("return", "the loop would no longer run"),
    ],
)
def test_a_candidate_that_is_no_cure(
    line: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proposal = with_line_before(CLIPPED, line, monkeypatch, tmp_path, "AMP101")
    assert proposal.finding.fix is None
    assert reason in proposal.reason


def test_the_right_line_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So the refusals above are not for want of being looked at."""
    proposal = with_line_before(CLIPPED, "scaler.unscale_(optimizer)", monkeypatch, tmp_path, "AMP101")
    assert proposal.finding.fix is not None


SHARED = f"""\
{PREAMBLE}
    scaler = torch.amp.GradScaler("cuda") if use_amp else None
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = F.cross_entropy(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
"""


def test_what_would_fail_without_mixed_precision_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The analysis drops a run that calls a method of None: it must not count as mended."""
    proposal = with_line_before(SHARED, "scaler.unscale_(optimizer)", monkeypatch, tmp_path, "AMP101")
    assert "the loop would no longer run when not use_amp" in proposal.reason


def test_the_option_is_asked_where_the_step_depends_on_it(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(SHARED)
    (finding,) = [f for f in check_paths([str(file)]).findings if f.code == "AMP101"]
    (proposal,) = propose([finding])
    assert proposal.finding.fix is not None
    assert "".join(edit.text for edit in proposal.finding.fix.edits).splitlines() == [
        "        if scaler is not None:",
        "            scaler.unscale_(optimizer)",
    ]


OPTIONAL_CLIP = f"""\
{PREAMBLE}
    for i, (x, y) in enumerate(loader):
        (F.cross_entropy(model(x), y) / k).backward()
        if max_norm is not None:
            # bounded
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""


def test_an_option_moves_along_with_its_statement(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(OPTIONAL_CLIP)
    (finding,) = [f for f in check_paths([str(file)]).findings if f.code == "AMP203"]
    (proposal,) = propose([finding])
    assert proposal.accepted is not None
    (draft,) = proposal.accepted.candidate.drafts.values()
    assert draft.text.split("/ k).backward()\n")[1] == (
        "        if (i + 1) % k == 0 or i + 1 == len(loader):\n"
        "            if max_norm is not None:\n"
        "                # bounded\n"
        "                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
    )


LOOP_OVER_OPTIMIZERS = """\
import torch


def train(encoder, decoder, loader, criterion):
    optimizers = [torch.optim.SGD(encoder.parameters(), lr=0.1), torch.optim.SGD(decoder.parameters(), lr=0.1)]
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(decoder(encoder(x)), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_([*encoder.parameters(), *decoder.parameters()], 1.0)
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
"""


def test_a_name_that_a_loop_gives_brings_its_loop_along(tmp_path: Path) -> None:
    """Before the second loop `optimizer` is the first loop's last one."""
    file = tmp_path / "train.py"
    file.write_text(LOOP_OVER_OPTIMIZERS)
    (proposal,) = propose([f for f in check_paths([str(file)]).findings if f.code == "AMP101"])
    assert proposal.finding.fix is not None
    (edit,) = proposal.finding.fix.edits
    assert edit.text == "        for optimizer in optimizers:\n            scaler.unscale_(optimizer)\n"


def test_a_strategy_that_breaks_costs_no_other_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(_: Case) -> Iterator[Candidate]:
        nothing: list[Iterator[Candidate]] = []
        return nothing[0]

    monkeypatch.setitem(STRATEGIES, "AMP101", (broken, *STRATEGIES["AMP101"]))
    file = tmp_path / "train.py"
    file.write_text(CLIPPED)
    (proposal,) = propose(check_paths([str(file)]).findings)
    assert proposal.finding.fix is not None
    monkeypatch.setitem(STRATEGIES, "AMP101", (broken,))
    (proposal,) = propose(check_paths([str(file)]).findings)
    assert proposal.reason == "ampcheck failed on this fix (IndexError); please report it"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("built anew (called in line 7)", "built anew (called in line 12)", True),
        (
            "in 3 runs: 5 combinations of its options not explored",
            "in 7 runs: 9 combinations of its options not explored",
            True,
        ),
        ("4 micro-batches are summed", "2 micro-batches are summed", False),
    ],
)
def test_what_is_known_again_in_the_edited_file(one: str, other: str, same: bool) -> None:
    site = Site("train.py", 1, 1, 1, 2)
    findings = [
        Finding("AMP119", "scaler-in-loop", "warning", "certain", site, text) for text in (one, other)
    ]
    assert (said(findings[0]) == said(findings[1])) is same
