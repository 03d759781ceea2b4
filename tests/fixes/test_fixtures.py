"""Every wrong fixture of the rules that have fixes gets one that holds, or there is a reason why not."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from ampcheck import registry
from ampcheck.check import check_paths
from ampcheck.finding import Fix
from ampcheck.fixes import FIXABLE, Proposal, propose
from ampcheck.fixes.proof import prove
from tests.expectations import expected, fixture_files, label
from tests.fixes.loops import edited

pytestmark = pytest.mark.usefixtures("uncounted")

NAMES = {rule.code: rule.name.replace("-", "_") for rule in registry.built_in()}

NO_FIX = {
    # The scaler is the engine's own: there is nothing to call `unscale_` or `update` on, its own clip is another call.
    "clip_before_unscale/wrong_accelerate_torch_clip": "belongs to a library",
    "clip_before_unscale/wrong_fabric": "belongs to a library",
    "clip_before_unscale/wrong_lightning_manual": "belongs to a library",
    "clip_before_unscale/wrong_lightning_after_backward": "both happen in one call",
    "missing_update/wrong_accelerate_skips_after_clip": "belongs to a library",
    # apex unscales when its context is left.
    "clip_before_unscale/wrong_apex_inside": "no step through a scaler",
    # In hooks gradients are not complete yet.
    "clip_before_unscale/wrong_clamp_in_tensor_hook": "in a hook",
    "raw_step_on_scaled_gradients/wrong_hook": "in a hook",
    # The scaler is hidden in another object, which has no method for it.
    "clip_before_unscale/wrong_optimizer_wrapper": "has no name",
    # The parts stand in functions that do not know each other's names.
    "unscale_inside_window/wrong_update_every_micro_batch": "in another function",
    "clip_inside_window/wrong_inner_loop_helper": "is not the same",
    "step_inside_window/wrong_helper_steps_scheduler_gated": "is not the same",
    "missing_no_sync/wrong_trainer_scaler": "do not stand in one block",
    # Nothing counts the micro-batches.
    "step_inside_window/wrong_divided_but_never_gated": "no counter",
    # Model.zero_grad() and timm's scaler are not held back by a window, wherever they stand.
    "zero_grad_inside_window/wrong_accelerate_model_zero_grad": "would stay",
    "zero_grad_inside_window/wrong_timm_scaler": "would stay",
}

ENGINE = "a library's engine"
UNSAFE = {
    "clip_inside_window/wrong_accelerate_no_sync_test": ENGINE,
    "zero_grad_inside_window/wrong_accelerate_zero_first": ENGINE,
    "loss_divided_twice/wrong_accelerate_divides_too": ENGINE,
    "loss_divided_twice/wrong_deepspeed": ENGINE,
    "loss_divided_twice/wrong_lightning_accumulation": ENGINE,
    "missing_no_sync/wrong_accelerate_list": ENGINE,
    "scheduler_inside_window/wrong_accelerate_unprepared": ENGINE,
    "missing_no_sync/wrong_fsdp_bfloat16": "more memory",
    "step_inside_window/wrong_trainer_scaler_outside_gate": "left over",
    "zero_grad_inside_window/wrong_top_of_each_iteration": "left over",
    # The dropped batch is one that the scale grows by; a correct loop updates for both optimizers together.
    "missing_update/wrong_partly_frozen_discriminator": "still deviates",
    # One of its runs steps one optimizer only, by a name in a set.
    "raw_step_on_scaled_gradients/wrong_set_of_optimizers": "still deviates",
}


@dataclass(frozen=True)
class Proposed:
    """A fixture with what is proposed for one of its findings."""

    path: Path
    proposal: Proposal

    @property
    def fix(self) -> Fix:
        assert self.proposal.finding.fix is not None
        return self.proposal.finding.fix


def wrong_files() -> list[Path]:
    """The fixtures of the rules with fixes."""
    return [p for code in sorted(FIXABLE) for p in fixture_files(NAMES[code]) if p.stem.startswith("wrong")]


@pytest.fixture(scope="module")
def proposed() -> list[Proposed]:
    """All proposals, proven in one go."""
    found = [
        (path, finding)
        for path in wrong_files()
        for finding in check_paths([str(path)]).findings
        if NAMES[finding.code] == path.parent.name
    ]
    proposals = prove(propose([finding for _, finding in found]))
    return [Proposed(path, proposal) for (path, _), proposal in zip(found, proposals, strict=True)]


def test_every_wrong_fixture_has_a_fix_or_a_reason(proposed: list[Proposed]) -> None:
    reasons = {label(p.path): p.proposal.reason for p in proposed if p.proposal.finding.fix is None}
    assert reasons.keys() == NO_FIX.keys()
    assert not {name: why for name, why in reasons.items() if NO_FIX[name] not in why}
    assert {NAMES[p.proposal.finding.code] for p in proposed if p.proposal.finding.fix} == {
        NAMES[code] for code in FIXABLE
    }


def test_what_is_not_proven_is_unsafe_and_says_why(proposed: list[Proposed]) -> None:
    unsafe = {
        label(p.path): p.fix.why for p in proposed if p.proposal.accepted and p.fix.applicability != "safe"
    }
    assert unsafe.keys() == UNSAFE.keys()
    assert not {name: why for name, why in unsafe.items() if UNSAFE[name] not in why}
    assert not [p for p in proposed if p.proposal.accepted and p.fix.applicability == "safe" and p.fix.why]


def test_after_a_fix_the_other_expected_findings_are_there_and_no_more(
    proposed: list[Proposed], tmp_path: Path
) -> None:
    """The fixtures' own comments say what is left."""
    wrong = []
    for p in proposed:
        if p.proposal.accepted is None:
            continue
        copy = tmp_path / p.path.name
        copy.write_text(edited(p.path.read_text(), p.fix.edits))
        compile(copy.read_text(), str(copy), "exec")
        before = Counter(place.code for place in expected(p.path))
        after = Counter(f.code for f in check_paths([str(copy)]).findings)
        code = p.proposal.finding.code
        if after - before or after[code] >= before[code]:
            wrong.append((label(p.path), before, after))
    assert not wrong


def test_comments_survive_and_only_few_lines_change(proposed: list[Proposed]) -> None:
    for p in proposed:
        if p.proposal.accepted is None:
            continue
        old = p.path.read_text()
        new = edited(old, p.fix.edits)
        lost = Counter(comments(old)) - Counter(comments(new))
        # With a statement goes the comment behind it, which in fixtures says that it is wrong.
        assert all(comment.startswith("# expect:") for comment in lost), label(p.path)
        kept = Counter(line.strip() for line in old.splitlines()) & Counter(
            line.strip() for line in new.splitlines()
        )
        changed = len(old.splitlines()) - kept.total()
        allowed = 8 if p.proposal.finding.code == "AMP604" else 3
        assert changed <= allowed, (label(p.path), changed)


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
