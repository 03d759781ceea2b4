"""What is replayed is the user's own window: their K and threshold, under their condition; their optimizer is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.finding import Replay
from ampcheck.replay import SCENARIOS, replay
from ampcheck.replay.scenarios import gradient

LOOP = """
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, use_amp, window, max_norm):
    optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda"{enabled})
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y) / {window}
        scaler.scale(loss).backward()
        if (i + 1) % {window} == 0 or i + 1 == len(loader):
            {unscale}nn.utils.clip_grad_norm_(model.parameters(), {norm})
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
GUARDED = "if use_amp: nn.utils.clip_grad_norm_(model.parameters(), 0.25)\n            else: "

SOURCES = {
    "half": LOOP.format(optimizer="SGD", enabled="", window=4, unscale="", norm=0.5),
    "open": LOOP.format(optimizer="SGD", enabled="", window="window", unscale="", norm="max_norm"),
    "adam": LOOP.format(optimizer="AdamW", enabled="", window=2, unscale="", norm=1.0),
    "amp": LOOP.format(optimizer="SGD", enabled="", window=2, unscale=GUARDED, norm=0.25).replace(
        "            else: nn", "            else: scaler.unscale_(optimizer); nn"
    ),
    "long": LOOP.format(optimizer="SGD", enabled="", window=64, unscale="", norm=1e9),
    "unclipped": LOOP.format(optimizer="SGD", enabled="", window=5, unscale="", norm="0")
    .replace("nn.utils.clip_grad_norm_(model.parameters(), 0)", "loss = loss.detach()")
    .replace("/ 5", "/ 5 / 5"),
}


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Replay]:
    folder = tmp_path_factory.mktemp("windows")
    for name, source in SOURCES.items():
        (folder / f"{name}.py").write_text(source)
    findings = check_paths([str(folder)]).findings
    assert sorted(Path(f.site.path).stem for f in findings) == sorted(SOURCES)
    return {Path(f.site.path).stem: f.replay for f in replay(findings, "cpu") if f.replay}


def test_the_code_s_own_threshold_and_window(replays):
    """With M = 0.5 and S = 8 the norm that is left is 0.5/8."""
    half = replays["half"]
    assert half.outcome == "confirmed"
    assert half.text.startswith("norm at step 0.0625 = M/S, expected 0.5")
    assert half.text.endswith("; K = 4, M = 0.5 as in the code")
    assert half.figures["K"] == 4


def test_what_the_code_leaves_open_has_a_stand_in(replays):
    assert replays["open"].text.startswith("norm at step 0.125 = M/S, expected 1.0")
    assert replays["open"].text.endswith("; K = 3 for `window`, M = 1 for the clip's own")


def test_a_window_too_long_to_run_and_a_threshold_that_never_clips_have_one_too(replays):
    assert replays["long"].text.endswith("; K = 3 for `64`, M = 1 for the clip's own")


def test_without_a_clip_there_is_no_threshold(replays):
    assert replays["unclipped"].text.endswith("; K = 5 as in the code")
    assert replays["unclipped"].figures["K"] == 5


def test_overflows_depend_on_the_scale_and_not_on_the_threshold():
    huge = next(s for s in SCENARIOS if s.data == "huge")
    assert gradient(huge, 0, 0, 0, 0, 0, 3, 10.0) == gradient(huge, 0, 0, 0, 0, 0, 3)


def test_the_condition_is_said(replays):
    assert "as in the code, when use_amp" in replays["amp"].text
    assert "M = 0.25" in replays["amp"].text


def test_adam_s_parameters_hide_a_factor_and_by_how_much(replays):
    """Both windows are clipped, so that Adam sees the same direction twice, an eighth as long."""
    adam = replays["adam"]
    assert adam.text.startswith("norm at step 0.125 = M/S, expected 1.0")
    assert "AdamW's parameters hide it: they differ by " in adam.text
    hidden = adam.figures["AdamW parameters"]
    assert isinstance(hidden, float)
    assert hidden < 1e-5
    assert "parameters" not in replays["half"].text
