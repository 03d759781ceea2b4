"""`ampcheck check --fix`, `--diff` and `--show-fixes` on files, with the real replay, the real git and notebooks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.cli import main
from ampcheck.events import Unscale
from ampcheck.fixes import proof, propose
from ampcheck.fixes.applying import apply
from ampcheck.replay import ReplayUnavailable
from ampcheck.trace import Trace
from tests.expectations import FIXTURES
from tests.fixes.loops import CLIPPED, PREAMBLE

TWO_FAULTS = f"""\
{PREAMBLE}
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=1000)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
"""

SAME_LINES = f"""\
{PREAMBLE}
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y) / k
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if (i + 1) % k == 0 or i + 1 == len(loader):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`train.py` of the current folder, with two faults in one loop."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TWO_FAULTS)
    return tmp_path / "train.py"


def test_fix_makes_a_right_loop_once_and_for_all(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "train.py"]) == 1
    assert main(["check", "--fix", "train.py"]) == 0
    said = capsys.readouterr()
    assert said.err == "ampcheck: fixed 2 findings: 1 AMP101, 1 AMP503\n"
    once = file.read_text()
    assert once != TWO_FAULTS
    assert not check_paths(["train.py"]).findings
    assert main(["check", "--fix", "train.py"]) == 0
    assert file.read_text() == once


def test_the_difference_is_what_fix_does(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Applied by the real git, with line ends of its own and a last line without one."""
    data = TWO_FAULTS.rstrip("\n").replace("\n", "\r\n").encode()
    file.write_bytes(data)
    assert main(["check", "--diff", "train.py"]) == 1
    difference = capsys.readouterr().out
    assert file.read_bytes() == data
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    subprocess.run([git, "init", "-q", "."], check=True)
    applied = subprocess.run(
        [git, "apply", "--whitespace=nowarn", "-"],
        input=difference.encode(),
        capture_output=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr.decode()
    by_git = file.read_bytes()
    file.write_bytes(data)
    assert main(["check", "--fix", "train.py"]) == 0
    assert file.read_bytes() == by_git != data
    capsys.readouterr()
    assert main(["check", "--diff", "train.py"]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_left_decides_the_exit_code(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--fix", "--select", "AMP503", "train.py"]) == 0
    assert "clip_grad_norm_" in file.read_text()
    assert main(["check", "train.py"]) == 1
    assert "AMP101" in capsys.readouterr().out
    shutil.copy(FIXTURES / "clip_before_unscale" / "wrong_clamp_in_tensor_hook.py", file)
    assert main(["check", "--fix", "train.py"]) == 1
    assert "fixed 0 findings" in capsys.readouterr().err


def test_fixes_of_the_same_lines_come_one_after_the_other(file: Path) -> None:
    """AMP105 moves `unscale_`, AMP203 the clip, and both touch the boundary's first line."""
    file.write_text(SAME_LINES)
    findings = check_paths(["train.py"]).findings
    assert [f.code for f in findings] == ["AMP105", "AMP203"]
    done = apply(findings, ["train.py"])
    assert sorted(f.code for f in done.fixed) == ["AMP105", "AMP203"]
    (new,) = done.contents.values()
    assert new.decode().split("/ k\n")[1] == (
        "        scaler.scale(loss).backward()\n"
        "        if (i + 1) % k == 0 or i + 1 == len(loader):\n"
        "            scaler.unscale_(optimizer)\n"
        "            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
        "            scaler.step(optimizer)\n"
        "            scaler.update()\n"
        "            optimizer.zero_grad()\n"
    )


def test_the_tour_is_repaired_as_far_as_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FIXTURES / "tour", tmp_path / "tour")
    before = check_paths(["tour"]).findings
    main(["check", "--fix", "--unsafe-fixes", "tour"])
    after = check_paths(["tour"]).findings
    assert len(after) < len(before)
    assert not {f.code for f in after} - {f.code for f in before}
    files = {path.name: path.read_text() for path in (tmp_path / "tour").iterdir() if path.is_file()}
    main(["check", "--fix", "--unsafe-fixes", "tour"])
    assert files == {path.name: path.read_text() for path in (tmp_path / "tour").iterdir() if path.is_file()}


def test_a_notebook_changes_in_one_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "wrong_loop_in_cells.ipynb"
    old = (FIXTURES / "notebooks" / name).read_bytes()
    (tmp_path / name).write_bytes(old)
    main(["check", "--fix", "--select", "AMP101", name])
    new = (tmp_path / name).read_bytes()
    added = [line for line in new.splitlines() if line not in old.splitlines()]
    assert added == [b'    "    scaler.unscale_(optimizer)\\n",']
    assert len(new.splitlines()) == len(old.splitlines()) + 1
    assert json.loads(new)["metadata"] == json.loads(old)["metadata"]
    assert not [f for f in check_paths([name]).findings if f.code == "AMP101"]


# --- in the report ------------------------------------------------------------------------------------------------


def test_the_report_names_fixes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--show-fixes", "--format", "json", "train.py"]) == 1
    clip, _ = json.loads(capsys.readouterr().out)["findings"]
    line = 1 + TWO_FAULTS.splitlines().index(next(x for x in TWO_FAULTS.splitlines() if "clip_grad" in x))
    place = {"path": "train.py", "line": line, "column": 1, "end_line": line, "end_column": 1}
    assert clip["fix"] == {
        "title": "call scaler.unscale_(optimizer) before the clip",
        "applicability": "safe",
        "why": "",
        "edits": [{**place, "text": "        scaler.unscale_(optimizer)\n"}],
    }
    assert main(["check", "train.py", "--format", "json"]) == 1
    assert {f["fix"] for f in json.loads(capsys.readouterr().out)["findings"]} == {None}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--unsafe-fixes", "train.py"], "add --fix or --diff"),
        (["--fix", "--diff", "train.py"], "not allowed with"),
        (["--fix", "-"], "fixes are for files"),
    ],
)
def test_what_does_not_go_together(
    arguments: list[str], said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["check", *arguments])
    except SystemExit as exit_:
        code = exit_.code  # type: ignore[assignment]
    assert code == 2
    assert said in capsys.readouterr().err
    assert file.read_text() == TWO_FAULTS


def test_a_file_that_is_no_python_does_not_stop_the_others(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "broken.py").write_text("scaler.scale(loss).backward(\n")
    assert main(["check", "--fix", "."]) == 1  # as without --fix: it is a finding
    said = capsys.readouterr()
    assert "broken.py:1:1  AMP900" in said.out
    assert "fixed 2 findings" in said.err
    assert (file.parent / "broken.py").read_text() == "scaler.scale(loss).backward(\n"


# --- without a proof ----------------------------------------------------------------------------------------------


def test_without_torch_nothing_is_safe_and_the_message_says_why(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: object) -> None:
        raise ReplayUnavailable("the replay needs torch, which is not installed")

    monkeypatch.setattr(proof, "compare", missing)
    assert main(["check", "--fix", "train.py"]) == 1
    assert file.read_text() == TWO_FAULTS
    assert capsys.readouterr().err == (
        "ampcheck: fixed 0 findings\n"
        "ampcheck: 2 more with --unsafe-fixes\n"
        "ampcheck: not proven: the replay needs torch, which is not installed\n"
    )
    assert main(["check", "--fix", "--unsafe-fixes", "train.py"]) == 0


def test_what_to_install_is_said_once(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not with every finding."""

    def missing(*_: object) -> None:
        raise ReplayUnavailable("the replay needs torch; install it")

    monkeypatch.setattr(proof, "compare", missing)
    assert main(["check", "--show-fixes", "train.py"]) == 1
    said = capsys.readouterr()
    assert said.out.count("(unsafe: not proven: no torch to replay on)") == 2
    assert "install" not in said.out
    assert said.err == "ampcheck: not proven: the replay needs torch; install it\n"


def test_a_renaming_needs_the_new_name_to_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ReplayUnavailable("the replay needs torch, which is not installed")

    path = str(FIXTURES / "deprecated_amp_api" / "wrong_from_import.py")
    monkeypatch.setattr(proof, "compare", missing)
    proposals = proof.prove(propose(f for f in check_paths([path]).findings if f.code == "AMP604"))
    assert {p.finding.fix.applicability for p in proposals if p.finding.fix} == {"unsafe"}


@pytest.mark.parametrize(
    "deviation", [{"gradient": "gradient at step 0.1, expected 1.0"}, {"replay": "it broke"}]
)
def test_what_the_replay_does_not_find_right_is_unsafe(
    deviation: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "train.py"
    file.write_text(CLIPPED)
    monkeypatch.setattr(proof, "compare", lambda traces: tuple(dict(deviation) for _ in traces))
    (proposal,) = proof.prove(propose(check_paths([str(file)]).findings))
    fix = proposal.finding.fix
    assert fix is not None
    assert fix.applicability == "unsafe"
    assert (
        fix.why
        == f"not proven: the replay of the mended loop still deviates: {next(iter(deviation.values()))}"
    )


@pytest.mark.parametrize(
    ("left", "applicability"),
    [
        ({"schedule": "8 steps, expected 2"}, "safe"),  # AMP503's, as before
        (
            {"schedule": "8 steps, expected 2", "exception": "torch raises"},
            "unsafe",
        ),  # what comes after is not seen
        ({"clip-norm": "norm 8, expected 1"}, "unsafe"),  # AMP101's own
        ({"scale": "2, expected 1"}, "unsafe"),  # nothing deviated in it before
    ],
)
def test_what_other_faults_of_the_loop_may_still_do(
    left: dict[str, str], applicability: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(traces: Sequence[Trace]) -> tuple[dict[str, str], ...]:
        mended = [any(trace.of(Unscale)) for trace in traces]
        was = {"clip-norm": "norm 8", "schedule": "8 steps", "exception": "torch raises"}
        return tuple(left if is_mended else was for is_mended in mended)

    monkeypatch.setattr(proof, "compare", compare)
    clip, _ = proof.prove(propose(check_paths(["train.py"]).findings))
    assert clip.finding.fix is not None
    assert clip.finding.fix.applicability == applicability
