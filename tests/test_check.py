"""Checking files: every file is checked whatever becomes of the others, and nothing unread is called clean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampcheck import registry, session
from ampcheck.check import Options, check_paths, python_files, traces_of
from ampcheck.events import Site
from ampcheck.finding import Finding, Report
from ampcheck.rule import Rule, Violation
from ampcheck.source import Unreadable
from ampcheck.trace import Trace

WRONG = """import torch
from torch.nn.utils import clip_grad_norm_


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        scaler.scale(model(x).mean()).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
RIGHT = WRONG.replace("        clip_grad", "        scaler.unscale_(optimizer)\n        clip_grad")
BROKEN = "def train(:\n    loss.backward()\n"


def codes(report: Report) -> list[tuple[str, int, str]]:
    return [(os.path.basename(f.site.path), f.site.line, f.code) for f in report.findings]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a file of each kind."""
    (tmp_path / "a_wrong.py").write_text(WRONG)
    (tmp_path / "b_broken.py").write_text(BROKEN)
    (tmp_path / "c_right.py").write_text(RIGHT)
    (tmp_path / "d_wrong.py").write_text(WRONG)
    return tmp_path


def test_one_broken_file_does_not_hide_the_others(tree: Path) -> None:
    report = check_paths([str(tree)])
    assert codes(report) == [
        ("a_wrong.py", 10, "AMP101"),
        ("b_broken.py", 1, "AMP900"),
        ("d_wrong.py", 10, "AMP101"),
    ]
    assert report.files == 3


def test_a_broken_file_is_a_failure_with_its_line(tree: Path) -> None:
    (failure,) = check_paths([str(tree)]).failures
    assert failure.path.endswith("b_broken.py")
    assert failure.message.startswith("not Python: line 1: ")
    assert "\n" not in failure.message


def test_a_missing_path_is_no_clean_path(tmp_path: Path) -> None:
    report = check_paths([str(tmp_path / "absent.py")])
    assert [f.code for f in report.findings] == ["AMP900"]
    assert "No such file" in report.failures[0].message
    assert report.files == 0


class _Crashes(Rule):
    """A rule with a bug that one file shows."""

    code = "AMP999"
    name = "crashes"
    severity = "error"

    def check(self, trace: Trace) -> Iterator[Violation]:
        if any(r.event.site.path.endswith("d_wrong.py") for r in trace.records):
            raise ZeroDivisionError("a bug")
        yield from ()


def test_a_rule_that_crashes_breaks_its_file_alone(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (*registry.load(), _Crashes())
    monkeypatch.setattr(registry, "load", lambda: rules)
    report = check_paths([str(tree)])
    assert codes(report) == [
        ("a_wrong.py", 10, "AMP101"),
        ("b_broken.py", 1, "AMP900"),
        ("d_wrong.py", 1, "AMP903"),
    ]
    message = report.findings[-1].message
    assert "ZeroDivisionError: a bug" in message
    assert "please report it" in message
    assert [os.path.basename(f.path) for f in report.failures] == ["b_broken.py", "d_wrong.py"]
    assert report.files == 2


def test_a_crash_of_the_analysis_itself_is_one_too(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise AssertionError("unforeseen")

    monkeypatch.setattr(session, "explore", explode)
    report = check_paths([str(tree / "c_right.py")])
    assert codes(report) == [("c_right.py", 1, "AMP903")]


def test_an_interrupt_is_not_swallowed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "explore", interrupt)
    with pytest.raises(KeyboardInterrupt):
        check_paths([str(tree)])


def test_truncation_is_a_note_on_the_function(tmp_path: Path) -> None:
    dozen = list(range(12))
    body = (
        f"    for a in {dozen}:\n        for b in {dozen}:\n            for c in {dozen}:\n"
        f"                for d in {dozen}:\n"
    )
    path = tmp_path / "train.py"
    path.write_text(f"def train(loss):\n{body}                    loss.backward()\n")
    (finding,) = check_paths([str(path)]).findings
    assert (finding.code, finding.severity, finding.site.line) == ("AMP902", "note", 1)
    assert "`train`" in finding.message


# --- which files ------------------------------------------------------------------------------------------------


def test_the_python_files_under_a_folder(tmp_path: Path) -> None:
    for name in (
        "b.py",
        "a.py",
        "sub/c.py",
        "sub/d.ipynb",
        "note.txt",
        ".hidden/d.py",
        "venv/e.py",
        "build/f.py",
        "__pycache__/g.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = [os.path.relpath(path, tmp_path) for path in python_files([str(tmp_path)])]
    assert found == ["a.py", "b.py", os.path.join("sub", "c.py"), os.path.join("sub", "d.ipynb")]


def test_a_file_that_is_named_is_checked_whatever_it_is_called(tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text(WRONG)
    assert [f.code for f in check_paths([str(script)]).findings] == ["AMP101"]


def test_each_file_once(tree: Path) -> None:
    path = str(tree / "a_wrong.py")
    assert list(python_files([path, str(tree), path])).count(path) == 1


def test_nothing_to_check_is_an_empty_report(tmp_path: Path) -> None:
    assert check_paths([str(tmp_path)]) == Report((), (), 0)
    assert check_paths([]) == Report((), (), 0)


def test_the_caller_hears_of_each_file_before_it_is_read(tree: Path) -> None:
    heard: list[str] = []
    check_paths([str(tree)], on_file=heard.append)
    assert [os.path.basename(path) for path in heard] == [
        "a_wrong.py",
        "b_broken.py",
        "c_right.py",
        "d_wrong.py",
    ]


# --- what is reported -------------------------------------------------------------------------------------------


def test_findings_come_in_order_of_place(tmp_path: Path) -> None:
    twice = WRONG + WRONG.replace("def train", "def finetune")
    for name in ("z.py", "a.py"):
        (tmp_path / name).write_text(twice)
    report = check_paths([str(tmp_path / "z.py"), str(tmp_path / "a.py")])
    places = [(f.site, f.code) for f in report.findings]
    assert places == sorted(places)
    assert len(places) == 4


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (Options(), True),
        (Options(select=frozenset({"AMP101"})), True),
        (Options(select=frozenset({"AMP102"})), False),
        (Options(ignore=frozenset({"AMP101"})), False),
        (Options(select=frozenset({"AMP101"}), ignore=frozenset({"AMP101"})), False),
    ],
)
def test_selected_and_ignored(options: Options, wanted: bool) -> None:
    site = Site("train.py", 1, 1, 1, 1)
    assert options.wants(Finding("AMP101", "clip-before-unscale", "error", "certain", site, "")) == wanted


@pytest.mark.parametrize("possible", [True, False])
def test_possible_findings_are_shown_on_request(possible: bool) -> None:
    finding = Finding("AMP101", "clip-before-unscale", "error", "possible", Site("train.py", 1, 1, 1, 1), "")
    assert Options(possible=possible).wants(finding) == possible


# --- traces and declarations ------------------------------------------------------------------------------------


def test_the_traces_of_a_file(tree: Path) -> None:
    assert [trace.root for trace in traces_of(str(tree / "a_wrong.py"))] == ["train"]


def test_deprecated_names_are_traces_of_their_own(tree: Path) -> None:
    path = tree / "old.py"
    path.write_text(WRONG.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()"))
    *declarations, run = traces_of(str(path))
    assert [[record.event.site.line for record in trace.records] for trace in declarations] == [[7]]
    assert run.root == "train"


def test_a_file_without_a_step_has_no_traces(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("print(1)\n")
    assert traces_of(str(tmp_path / "other.py")) == ()


def test_traces_of_an_unreadable_file(tree: Path) -> None:
    with pytest.raises(Unreadable):
        traces_of(str(tree / "b_broken.py"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n", 2),
        ("import torch\nscaler = torch.cuda.amp.GradScaler()\n", 2),
        ("import torch.cuda.amp as amp\n\nscaler = amp.GradScaler()\n", 3),
        ("from torch.cuda import amp\nscaler = amp.GradScaler()\n", 2),
    ],
)
def test_a_deprecated_name_is_found_without_running_anything(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "train.py").write_text(text)
    (finding,) = check_paths([str(tmp_path)]).findings
    assert (finding.code, finding.severity, finding.site.line) == ("AMP604", "note", line)


def test_a_namesake_in_another_library_is_not_deprecated(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from mylib.cuda.amp import GradScaler\nscaler = GradScaler()\n")
    assert check_paths([str(tmp_path)]).findings == ()


def test_what_two_scripts_find_in_a_module_they_share_is_one_finding(tmp_path: Path) -> None:
    head, loop = WRONG.split("    for x, y in loader:\n")
    (tmp_path / "shared.py").write_text(
        "from torch.nn.utils import clip_grad_norm_\n\n\n"
        f"def run(model, loader, optimizer, scaler):\n    for x, y in loader:\n{loop}"
    )
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(
            f"from shared import run\n{head}    run(model, loader, optimizer, scaler)\n"
        )
    assert codes(check_paths([str(tmp_path)])) == [("shared.py", 7, "AMP101")]
