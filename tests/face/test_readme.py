"""What the README and the files beside it promise to newcomers and to machines."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path


def blocks(checkout: Path, language: str) -> list[str]:
    return re.findall(rf"(?m)^```{language}\n((?:.*\n)*?)^```$", (checkout / "README.md").read_text("utf-8"))


def test_the_first_two_blocks_are_one_command_line_each(checkout: Path) -> None:
    tour, tests = blocks(checkout, "sh")[:2]
    assert tour.count("\n") == tests.count("\n") == 1
    assert "ampcheck replay fixtures/tour" in tour
    assert "pytest" in tests


def test_the_output_shown_is_real(
    checkout: Path, ampcheck: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    run = ampcheck("replay", "fixtures/tour", "--exit-zero", "--device", "cpu", cwd=checkout)
    assert run.returncode == 0
    for paragraph in blocks(checkout, "text")[0].strip().split("\n\n"):
        assert paragraph in run.stdout


def test_ci_runs_the_second_block(checkout: Path) -> None:
    script = checkout / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "README.md" in script.read_text()


def test_the_hook_runs_the_linter(checkout: Path) -> None:
    hook = (checkout / ".pre-commit-hooks.yaml").read_text()
    assert "id: ampcheck\n" in hook
    assert "entry: ampcheck check --force-exclude\n" in hook


def test_dev_pins_torch_and_users_keep_theirs(checkout: Path) -> None:
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert "torch==2.13.0" in extras["dev"]
    assert extras["replay"] == ["torch>=2.3"]
    assert not [need for need in project["dependencies"] if "==" in need or "torch" in need]
