"""The report for people."""

from __future__ import annotations

from dataclasses import replace

from ampcheck.events import Site
from ampcheck.finding import Failure, Finding, Replay, Report
from ampcheck.report import FORMATS
from ampcheck.report.line import plain, printable


def shown(report: Report, form: str = "text") -> list[str]:
    return [plain(line) for line in FORMATS[form](report)]


def test_a_finding_shows_its_lines_and_what_the_gradients_carry(clipped: Finding) -> None:
    assert shown(Report((clipped,), files=1)) == [
        "train.py:3:5  AMP101 clip-before-unscale  error",
        "  gradients are clipped while they carry the loss scale",
        "  when use_amp",
        "    1 │ scaler.scale(loss).backward()                             gradients × S",
        "    3 │ torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)   clipped at 1.0 / S",
        "    4 │ scaler.step( …                                            unscaled here, after the clip",
        "  fix: call scaler.unscale_(optimizer) before the clip",
        "",
        "1 error in 1 file analysed",
    ]


def test_a_replay_shows_device_figures_and_outcome(clipped: Finding) -> None:
    measured = Replay("confirmed", "cpu", {}, "norm at step 0.125, expected 1.0")
    lines = shown(Report((replace(clipped, replay=measured),), files=1))
    assert lines[7] == "  replay (cpu): norm at step 0.125, expected 1.0 — confirmed"
    assert lines[-1] == "replay on cpu: 1 confirmed"


def test_a_finding_without_a_witness_shows_its_own_line(clipped: Finding) -> None:
    lines = shown(Report((replace(clipped, witness=None, condition="", hint=""),), files=1))
    assert lines[2] == "    3 │ torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def test_a_finding_in_an_unreadable_file_shows_no_line(clipped: Finding) -> None:
    gone = replace(clipped, witness=None, condition="", hint="", site=Site("gone.py", 1, 1, 1, 1))
    assert len(shown(Report((gone,)))) == 4


def test_places_in_other_files_are_named(clipped: Finding) -> None:
    elsewhere = replace(clipped, site=Site("main.py", 7, 1, 7, 9))
    assert "  train.py:3 │ torch.nn" in "\n".join(shown(Report((elsewhere,), files=1)))


def test_a_possible_finding_says_so(clipped: Finding) -> None:
    possible = Report((replace(clipped, verdict="possible"),), files=1)
    assert shown(possible)[0].endswith("error, possible")
    assert "error, possible: gradients" in shown(possible, "concise")[0]


def test_concise_is_one_line_a_finding(clipped: Finding) -> None:
    refuted = replace(clipped, replay=Replay("refuted", "cpu"), severity="note")
    assert shown(Report((clipped, refuted), files=2), "concise") == [
        "train.py:3:5: AMP101 clip-before-unscale error: "
        "gradients are clipped while they carry the loss scale (when use_amp)",
        "train.py:3:5: AMP101 clip-before-unscale note: "
        "gradients are clipped while they carry the loss scale (when use_amp) [refuted]",
        "1 error, 1 note in 2 files analysed",
        "replay on cpu: 1 refuted",
    ]


def test_only_what_was_analysed_whole_is_called_clean() -> None:
    assert shown(Report(files=2)) == ["Clean: 2 files analysed"]
    assert shown(Report(files=1, failures=(Failure("x.py", "?"),))) == [
        "Nothing found in 1 file analysed, 1 not analysed"
    ]
    assert shown(Report()) == ["No file to analyse"]


def test_a_file_that_cannot_be_parsed_is_no_error_in_the_others(clipped: Finding) -> None:
    """It is shown as an error, and counted as what it is: a file that was not analysed."""
    broken = replace(clipped, code="AMP900", site=Site("broken.py", 1, 1, 1, 1), witness=None)
    alone = Report((broken,), (Failure("broken.py", "not Python"),))
    assert shown(alone)[-1] == "Nothing analysed: 1 path failed"
    two = replace(alone, failures=(*alone.failures, Failure("gone.py", "no such file or directory")))
    assert shown(two)[-1] == "Nothing analysed: 2 paths failed"
    assert shown(replace(alone, files=1))[-1] == "Nothing found in 1 file analysed, 1 not analysed"
    among = replace(alone, findings=(clipped, broken), files=2)
    assert shown(among)[-1] == "1 error in 2 files analysed, 1 not analysed"


def test_what_is_found_outside_of_analysed_files_is_counted(clipped: Finding) -> None:
    """Of a notebook, one cell may be broken; and a baseline is no file that is analysed."""
    part = Report((clipped,), (Failure("train.py", "cell 1 is no Python"),))
    assert shown(part)[-1] == "1 error; not analysed in full: 1 path"
    assert shown(Report((clipped,)))[-1] == "1 error; no file analysed"


def test_what_could_steer_a_terminal_is_escaped() -> None:
    assert printable("a\tb\x1b[31m\udcff ×") == "a   b\\x1b[31m\\udcff ×"
