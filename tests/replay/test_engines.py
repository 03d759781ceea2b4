"""Loops that an engine owns: what a test of the library's model measured, where the engine cannot run here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck import registry
from ampcheck.check import check_paths
from ampcheck.finding import Replay
from ampcheck.replay import replay
from tests.expectations import FIXTURES

MODELS = Path(__file__).parents[1] / "models"
FOLDERS = (
    "clip_ignored_by_engine",
    "engine_step_gated",
    "no_sync_under_deepspeed_zero",
    "trainer_step_duplicated",
    "backward_bypasses_engine",
)


@pytest.fixture(scope="module")
def replays() -> list[tuple[str, str, Replay]]:
    findings = check_paths([str(FIXTURES / folder) for folder in FOLDERS]).findings
    return [(f.code, Path(f.site.path).stem, f.replay) for f in replay(findings, "cpu") if f.replay]


def test_each_is_confirmed_in_one_way_or_the_other(replays):
    assert {code for code, _, _ in replays} == {"AMP209", "AMP314", "AMP407", "AMP701", "AMP702"}
    assert {result.outcome for _, _, result in replays} == {"confirmed", "confirmed (library model)"}


def test_what_an_engine_does_was_measured_with_it(replays):
    texts = {code: result.text for code, _, result in replays if result.outcome != "confirmed"}
    assert texts["AMP314"] == (
        "optimizer steps in 2 windows of 3: 0, expected 2 (DeepSpeed 0.19.8, tests/models/test_deepspeed.py)"
    )
    assert set(texts) == {"AMP209", "AMP314", "AMP407", "AMP701", "AMP702"}


def test_what_torch_s_own_scaler_does_inside_accelerate_is_executed(replays):
    by_hand = {stem: result for code, stem, result in replays if code == "AMP702"}
    assert by_hand["wrong_auxiliary_loss"].outcome == "confirmed"
    assert by_hand["wrong_auxiliary_loss"].device == "cpu"
    assert by_hand["wrong_fabric"].outcome == "confirmed (library model)"


def test_the_tests_that_are_named_are_there():
    named = [m.where.partition(", ")[2] for rule in registry.built_in() for m in rule.measured]
    assert len(named) >= 6
    assert all((MODELS / Path(path).name).is_file() and path.startswith("tests/models/") for path in named)
