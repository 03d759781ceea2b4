"""The server in Neovim, headless: the editor's own client, with nothing of ours in between."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.edits import HELPERS, TRAIN

NEOVIM = shutil.which("nvim")
SCRIPT = Path(__file__).with_name("neovim.lua")


@pytest.mark.skipif(NEOVIM is None, reason="Neovim (nvim) is not installed")
def test_neovim(tmp_path: Path, checkout: Path) -> None:
    pytest.importorskip("pygls", reason="pygls is not installed")
    text = TRAIN.replace("            scaler.unscale_(optimizer)\n", "")
    text = text.replace("clip(model, LIMIT)", "torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)")
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "helpers.py").write_text(HELPERS)
    run = subprocess.run(
        [NEOVIM or "nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {SCRIPT}"],
        env={
            **os.environ,
            "AMPCHECK_COMMAND": json.dumps([sys.executable, "-m", "ampcheck", "server"]),
            "AMPCHECK_FOLDER": str(tmp_path),
            "PYTHONPATH": str(checkout),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        capture_output=True,
        encoding="utf-8",
        timeout=180,
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout.strip().splitlines()[-1])
    assert seen["opened"] == ["AMP101:27", "AMP604:22"]
    assert "- micro-batch 1 of 3: no gradients → gradients × S / K, 1 micro-batch" in seen["hover"]
    assert seen["broken"] == ["AMP101:29", "AMP604:24", "AMP900:2"]
    assert "Ignore AMP101 clip-before-unscale here" in seen["actions"]
    assert seen["line"].endswith("LIMIT)  # ampcheck: ignore[clip-before-unscale]")
