"""`--since`: findings whose witness touches what has changed, in repositories made by the real git."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.cli import main
from ampcheck.finding import Report
from tests.notebooks import notebook

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

Git = Callable[..., str]

HEAD = """\
import torch
from torch.nn.utils import clip_grad_norm_

scaler = torch.amp.GradScaler("cuda")
rate = 0.1

"""
LOOP = """
def NAME(model, optimizer, loader):
    print("start")
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

"""
RIGHT = LOOP.replace("        clip_grad", "        scaler.unscale_(optimizer)\n        clip_grad")
TWO = HEAD + LOOP.replace("NAME", "one") + LOOP.replace("NAME", "other")
ONE_LINE, OTHER_LINE = 14, 25


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Git in a new repository, which is the current folder; nobody's configuration is read."""
    for name, value in {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout

    run("init", "-q", "-b", "main")
    return run


def commit(git: Git, **files: str | bytes) -> None:
    for name, text in files.items():
        path = Path(name.replace("__", "/").replace("_", ".", 1) if "." not in name else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    git("add", "-A")
    git("commit", "-q", "-m", "work")


def edit(path: str, old: str, new: str, *, last: bool = False) -> None:
    text = Path(path).read_text()
    assert old in text
    before, after = text.rsplit(old, 1) if last else text.split(old, 1)
    Path(path).write_text(before + new + after)


def since(revision: str, *paths: str, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int]]:
    """Path and line of what is found."""
    code = main([*paths, "--since", revision, "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert code == (1 if report["findings"] else 0)
    return [(finding["path"], finding["line"]) for finding in report["findings"]]


def test_the_example_is_wrong_twice(git: Git) -> None:
    commit(git, train_py=TWO)
    assert [f.site.line for f in check_paths(["train.py"]).findings] == [ONE_LINE, OTHER_LINE]


def test_nothing_changed_is_clean(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, train_py=TWO)
    assert since("HEAD", capsys=capsys) == []
    assert main(["--since", "HEAD"]) == 0
    assert capsys.readouterr().out == "Clean: 1 file analysed\n"


@pytest.mark.parametrize("place", ["unstaged", "staged", "committed"])
def test_an_edited_line_of_the_witness_shows_its_finding_alone(
    place: str, git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(git, train_py=TWO)
    edit("train.py", "clip_grad_norm_(model.parameters(), 1.0)", "clip_grad_norm_(model.parameters(), 2.0)")
    if place != "unstaged":
        git("add", "-A")
    if place == "committed":
        git("commit", "-q", "-m", "edit")
    assert since("HEAD~1" if place == "committed" else "HEAD", capsys=capsys) == [("train.py", ONE_LINE)]


@pytest.mark.parametrize(
    "line", ["scaler.scale(loss).backward()", "scaler.step(optimizer)"], ids=["backward", "step"]
)
def test_any_line_of_the_witness_will_do(line: str, git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, train_py=TWO)
    edit("train.py", line, f"{line}  # edited", last=True)
    assert since("HEAD", capsys=capsys) == [("train.py", OTHER_LINE)]


@pytest.mark.parametrize("line", ['print("start")', "rate = 0.1", "        optimizer.zero_grad()\n"])
def test_a_line_that_is_no_part_of_the_witness_shows_nothing(
    line: str, git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(git, train_py=TWO)
    edit("train.py", line, line.replace("\n", "  # edited\n") if "\n" in line else f"{line}  # edited")
    assert since("HEAD", capsys=capsys) == []


def test_lines_that_moved_have_not_changed(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, train_py=TWO)
    edit("train.py", "rate = 0.1\n", "rate = 0.1\n" + "# more\n" * 20)
    assert since("HEAD", capsys=capsys) == []


def test_where_the_scaler_is_made_is_part_of_the_witness(
    git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(git, train_py=TWO)
    edit("train.py", 'GradScaler("cuda")', 'GradScaler("cuda", init_scale=8.0)')
    assert since("HEAD", capsys=capsys) == [("train.py", ONE_LINE), ("train.py", OTHER_LINE)]


def test_a_line_that_is_gone_touches_its_loop(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    """The fault came by a deletion: no line of the witness is new."""
    commit(git, train_py=HEAD + RIGHT.replace("NAME", "one") + LOOP.replace("NAME", "other"))
    edit("train.py", "        scaler.unscale_(optimizer)\n", "")
    assert since("HEAD", capsys=capsys) == [("train.py", ONE_LINE)]


def test_a_line_that_is_gone_touches_its_function_outside_of_loops(
    git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    helper = (
        "from torch.nn.utils import clip_grad_norm_\n\n\n"
        "def update(model, optimizer, scaler):\n"
        "    scaler.unscale_(optimizer)\n    print()\n    clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )
    loop = HEAD + LOOP.replace("NAME", "train")
    loop = "from helper import update\n" + loop[: loop.index("        clip_grad")]
    commit(git, helper_py=helper, train_py=loop + "        update(model, optimizer, scaler)\n")
    edit("helper.py", "    scaler.unscale_(optimizer)\n", "")
    assert since("HEAD", capsys=capsys) == [("helper.py", 6)]


def test_a_file_git_does_not_know_is_all_new(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, old_py=TWO)
    Path("new.py").write_text(TWO)
    assert since("HEAD", capsys=capsys) == [("new.py", ONE_LINE), ("new.py", OTHER_LINE)]


def test_a_renamed_file_has_only_its_edits(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, old_py=TWO)
    git("mv", "old.py", "ü name.py")
    assert since("HEAD", capsys=capsys) == []
    edit("ü name.py", "scaler.step(optimizer)", "scaler.step(optimizer)  # edited")
    assert since("HEAD", capsys=capsys) == [("ü name.py", ONE_LINE)]


def test_what_the_other_branch_did_is_not_ours(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, train_py=TWO)
    git("checkout", "-q", "-b", "work")
    commit(git, mine_py=HEAD + LOOP.replace("NAME", "mine"))
    git("checkout", "-q", "main")
    commit(git, train_py=HEAD + RIGHT.replace("NAME", "one") + LOOP.replace("NAME", "other"))
    git("checkout", "-q", "work")
    assert since("main", capsys=capsys) == [("mine.py", ONE_LINE)]


def test_a_notebook_s_outputs_are_no_change(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, **{"train.ipynb": notebook(HEAD, LOOP, LOOP.replace("NAME", "other"))})
    data = json.loads(Path("train.ipynb").read_text())
    data["cells"][1] |= {"execution_count": 7, "outputs": [{"output_type": "stream", "text": ["1\n"] * 50}]}
    data["cells"].insert(0, {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n"]})
    Path("train.ipynb").write_text(json.dumps(data, indent=1))
    assert since("HEAD", capsys=capsys) == []


def test_a_notebook_s_edited_line_is_one(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, **{"train.ipynb": notebook(HEAD, LOOP, LOOP.replace("NAME", "other"))})
    Path("train.ipynb").write_bytes(
        notebook(HEAD, LOOP.replace("1.0)", "2.0)"), LOOP.replace("NAME", "other"))
    )
    assert main(["--since", "HEAD", "--format", "concise"]) == 1
    assert capsys.readouterr().out.startswith("train.ipynb:cell 2:8:9: AMP101")


def test_a_folder_below_the_top_and_a_path_from_elsewhere(
    git: Git, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit(git, a__train_py=TWO)
    edit("a/train.py", "scaler.step(optimizer)", "scaler.step(optimizer)  # edited")
    monkeypatch.chdir("a")
    assert since("HEAD", capsys=capsys) == [("train.py", ONE_LINE)]
    monkeypatch.chdir(tmp_path)
    assert since("HEAD", "project/a", capsys=capsys) == [("project/a/train.py", ONE_LINE)]


def test_what_users_configure_for_their_eyes_does_not_matter(
    git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(git, a__train_py=TWO)
    for name, value in {
        "diff.relative": "true",
        "diff.noprefix": "true",
        "diff.external": "false",
        "diff.renames": "false",
        "diff.context": "5",
        "diff.interHunkContext": "50",
        "color.diff": "always",
        "core.quotePath": "true",
    }.items():
        git("config", name, value)
    Path(".gitattributes").write_text("*.py -diff\n")
    git("mv", "a/train.py", "ä.py")
    edit("ä.py", "scaler.step(optimizer)", "scaler.step(optimizer)  # edited")
    assert since("HEAD", capsys=capsys) == [("ä.py", ONE_LINE)]


def test_a_file_that_cannot_be_read_counts_where_it_has_changed(
    git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(git, broken_py="loss.backward()\n\n\ndef f(:\n", train_py="print(1)\n")
    assert main(["--since", "HEAD"]) == 0
    assert capsys.readouterr().err == ""
    edit("broken.py", "loss", "loss_", last=False)
    assert since("HEAD", capsys=capsys) == [("broken.py", 4)]


def test_a_path_that_is_not_there_is_said_all_the_same(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, train_py=TWO)
    assert main(["train.py", "gone.py", "--since", "HEAD"]) == 2
    assert capsys.readouterr().err == "ampcheck: gone.py: no such file or directory\n"


@pytest.mark.parametrize("revision", ["nonsense", "--help", "HEAD:train.py", " x"])
def test_an_unknown_revision_is_one_line(revision: str, git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, train_py=TWO)
    assert main(["train.py", f"--since={revision}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"ampcheck: --since: git knows no revision {revision!r} in ")
    assert said.err.count("\n") == 1


def test_a_shallow_clone_is_explained(
    git: Git, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit(git, train_py="print(1)\n")
    commit(git, train_py=TWO)
    git("branch", "other", "HEAD~1")
    source = f"file://{tmp_path / 'project'}"
    subprocess.run(["git", "clone", "-q", "--depth", "1", source, str(tmp_path / "clone")], check=True)
    monkeypatch.chdir(tmp_path / "clone")
    git("fetch", "-q", "--depth", "1", "origin", "other:other")
    assert main(["--since", "other"]) == 2
    assert "fetch the whole history" in capsys.readouterr().err


def test_outside_of_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    Path("train.py").write_text(TWO)
    assert main(["train.py", "--since", "HEAD"]) == 2
    assert "ampcheck: --since: .: not a git repository" in capsys.readouterr().err


def test_a_repository_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    Path("train.py").write_text(TWO)
    assert main(["train.py", "--since", "HEAD"]) == 2
    assert "allow it with: git config --global --add safe.directory" in capsys.readouterr().err


def test_without_git(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(git, train_py=TWO)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["train.py", "--since", "HEAD"]) == 2
    assert capsys.readouterr().err == "ampcheck: --since: .: git is not installed\n"


def test_a_replay_is_spared_what_has_not_changed(
    git: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    commit(git, train_py=TWO)
    monkeypatch.setattr("ampcheck.replay.replay", lambda *_, **__: pytest.fail("there is nothing to replay"))
    assert main(["replay", "--since", "HEAD"]) == 0
    assert capsys.readouterr().out == "Clean: 1 file analysed\n"


def test_reports_without_changes_are_empty() -> None:
    from ampcheck.changes import Changes

    assert Changes((), {}).touched(Report(files=2)) == Report(files=2)
