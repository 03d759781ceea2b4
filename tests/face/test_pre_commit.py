"""The hooks, run by the real pre-commit (`try-repo`) on repositories that the tests make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.face.test_end_to_end import RIGHT, WRONG
from tests.notebooks import notebook

pytest.importorskip("pre_commit", reason="pre-commit is not installed")
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

TryRepo = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def try_repo(checkout: Path, tmp_path: Path) -> TryRepo:
    """Run a hook of the checkout on files, each staged in a new repository, with `ampcheck` on the path."""
    programs, hooks, project = tmp_path / "bin", tmp_path / "hooks", tmp_path / "project"
    for folder in (programs, hooks, project):
        folder.mkdir()
    program = programs / "ampcheck"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ampcheck "$@"\n')
    program.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "PATH": os.pathsep.join((str(programs), os.environ["PATH"])),
        "PYTHONPATH": str(checkout),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    environment |= {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }

    def git(folder: Path, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)

    shutil.copy(checkout / ".pre-commit-hooks.yaml", hooks)
    for folder in (hooks, project):
        git(folder, "init", "-q")
    git(hooks, "add", "-A")
    git(hooks, "commit", "-q", "-m", "hooks")

    def run(hook: str, **files: str | bytes) -> subprocess.CompletedProcess[str]:
        for name, text in files.items():
            path = project / name.replace("_", ".")
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        git(project, "add", "-A")
        command = [sys.executable, "-m", "pre_commit", "try-repo", str(hooks), hook, "--color=never"]
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, encoding="utf-8", timeout=600
        )

    return run


def test_wrong_python_and_a_wrong_notebook_fail_the_commit(try_repo: TryRepo) -> None:
    run = try_repo("ampcheck", wrong_py=WRONG, wrong_ipynb=notebook("print(1)", WRONG), right_py=RIGHT)
    assert run.returncode == 1
    assert re.search(r"^ampcheck\.+Failed$", run.stdout, re.MULTILINE)
    assert "wrong.py:12:9  AMP101 clip-before-unscale  error" in run.stdout
    assert "wrong.ipynb:cell 2:12:9  AMP101 clip-before-unscale  error" in run.stdout
    assert "2 errors in 3 files analysed" in run.stdout


def test_right_code_passes(try_repo: TryRepo) -> None:
    run = try_repo("ampcheck", right_py=RIGHT, right_ipynb=notebook(RIGHT), notes_txt=WRONG)
    assert run.returncode == 0
    assert re.search(r"^ampcheck\.+Passed$", run.stdout, re.MULTILINE)


def test_files_of_other_kinds_are_not_passed_on(try_repo: TryRepo) -> None:
    run = try_repo("ampcheck", notes_txt=WRONG)
    assert re.search(r"\(no files to check\)Skipped$", run.stdout, re.MULTILINE)


def test_files_that_the_settings_exclude_are_passed_over(try_repo: TryRepo) -> None:
    run = try_repo("ampcheck", wrong_py=WRONG, ampcheck_toml='exclude = ["wrong.py"]\n', right_py=RIGHT)
    assert run.returncode == 0


def test_the_replay_confirms_before_the_commit(try_repo: TryRepo) -> None:
    pytest.importorskip("torch")
    run = try_repo("ampcheck-replay", wrong_py=WRONG, wrong_ipynb=notebook(WRONG))
    assert run.returncode == 1
    assert re.search(r"^ampcheck \(replay\)\.+Failed$", run.stdout, re.MULTILINE)
    assert run.stdout.count("— confirmed") == 2


def test_what_is_proven_is_mended_and_the_commit_fails_until_it_is_staged(
    try_repo: TryRepo, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    run = try_repo("ampcheck-fix", wrong_py=WRONG, wrong_ipynb=notebook("print(1)", WRONG))
    assert run.returncode == 1
    assert re.search(r"^ampcheck \(fix\)\.+Failed$", run.stdout, re.MULTILINE)
    assert "files were modified by this hook" in run.stdout
    project = tmp_path / "project"
    for name in ("wrong.py", "wrong.ipynb"):
        assert "scaler.unscale_(optimizer)" in (project / name).read_text("utf-8")
    again = try_repo("ampcheck-fix")
    assert again.returncode == 0, again.stdout
