"""What the page says, without a browser: answers, switches, and what becomes of hostile or broken input."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ampcheck import registry
from ampcheck.audit import Audit, render
from ampcheck.audit.page import Section
from ampcheck.check import Analysed, check_paths
from ampcheck.cli import main

LOOP = """\
import torch
from torch.utils.data import DataLoader

def train(model, data, {name}=8):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    loader = DataLoader(data, batch_size=16)
    for x in loader:
        scaler.scale(model(x).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


def audited(*paths: Path) -> Audit:
    analysed: list[Analysed] = []
    names = [str(path) for path in paths]
    report = check_paths(names, on_analysed=analysed.append)
    return Audit(report, analysed, names, registry.load())


@pytest.fixture(scope="module")
def tour(checkout: Path) -> dict[str, Section]:
    """The loops of the tour by file and function."""
    audit = audited(checkout / "fixtures" / "tour")
    return {f"{Path(s.loop.path).stem}.{s.loop.name}": s for s in audit.sections}


BATCH, CLIP, SCHEDULE = range(3)


@pytest.mark.parametrize(
    ("loop", "question", "standing", "codes"),
    [
        ("accumulate.sum_of_losses()", BATCH, "bad", ("AMP305",)),
        ("accumulate.mean_of_losses()", BATCH, "open", ()),
        ("plain_amp.clip_scaled_norm()", CLIP, "bad", ("AMP101",)),
        ("plain_amp.clip_true_norm()", CLIP, "good", ()),
        ("accumulate.sum_of_losses()", CLIP, "none", ()),
        ("schedule.also_when_skipped()", SCHEDULE, "bad", ("AMP503",)),
        ("schedule.only_when_stepped()", SCHEDULE, "good", ()),
        ("schedule.once_an_update()", SCHEDULE, "none", ()),
        ("plain_amp.clip_true_norm()", SCHEDULE, "none", ()),
    ],
)
def test_the_three_questions(
    loop: str, question: int, standing: str, codes: tuple[str, ...], tour: dict[str, Section]
) -> None:
    answer = tour[loop].answers[question]
    assert (answer.standing, answer.codes) == (standing, codes)


def test_answers_name_their_lines(tour: dict[str, Section]) -> None:
    clip = tour["plain_amp.clip_true_norm()"].answers[CLIP]
    assert [(e.place.line if e.place else 0, e.text) for e in clip.evidence] == [
        (64, "unscales"),
        (65, "clips true gradients"),
    ]


def test_the_effective_batch_is_a_product(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(LOOP.format(name="option"))
    (section,) = audited(file).sections
    assert section.answers[BATCH].said == "16, no accumulation"
    assert "; K = 1, every micro-batch is a step; W = 1," in section.answers[BATCH].text


@pytest.mark.parametrize(
    ("indent", "said", "text"),
    [
        (
            "    ",
            "b, no accumulation",
            "K = 1, every micro-batch is a step, although the file says",
        ),
        ("", "b × K", "K is open, a step uses several micro-batches and nothing counts them"),
    ],
)
def test_a_loop_without_a_boundary_is_not_given_a_product(
    indent: str, said: str, text: str, tmp_path: Path
) -> None:
    """Whatever other loops of the file do with the length that it names."""
    file = tmp_path / "train.py"
    file.write_text(
        "import torch\naccumulation_steps = 4\ndef train(model, loader):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    for x in loader:\n"
        f"        model(x).mean().backward()\n    {indent}optimizer.step()\n    {indent}optimizer.zero_grad()\n"
    )
    answer = audited(file).sections[0].answers[BATCH]
    assert (answer.standing, answer.said) == ("open", said)
    assert text in answer.text


def test_who_does_what(tour: dict[str, Section]) -> None:
    """`fit` of gan.py: both optimizers step through one scaler, each is unscaled and clipped first."""
    rows = tour["gan.Gan.fit()"].owners
    assert [row.optimizer for row in rows] == ["self.optimizer_d (Adam)", "self.optimizer_g (Adam)"]
    for row in rows:
        kinds = (row.scales, row.unscales, row.clips, row.steps, row.updates)
        assert [len(kind) for kind in kinds] == [1, 1, 1, 1, 1]


def test_switches_of_code_and_configuration(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP.format(name="option"))
    (tmp_path / "ds.json").write_text(json.dumps({"fp16": {"enabled": True, "loss_scale": 0}}, indent="\t"))
    (tmp_path / "run.yaml").write_text("model:\n  width: 8\ntraining:\n  bf16: true\n")
    (tmp_path / "broken.yaml").write_text("fp16: [")
    found = {(Path(s.place.path).name, s.place.line, s.kind, s.text) for s in audited(tmp_path).switches}
    assert found == {
        ("train.py", 6, "loss scale", "torch.amp.GradScaler('cuda')"),
        ("ds.json", 3, "float16", "fp16.enabled: true"),
        ("ds.json", 4, "loss scale", "fp16.loss_scale: 0"),
        ("run.yaml", 4, "bfloat16", "training.bf16: true"),
    }


class _Loaded(HTMLParser):
    """What a page would fetch, and which elements it has."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "src" or (name == "href" and tag != "a"):
                self.fetched.append(value or "")


def test_the_page_is_one_file(page: Path) -> None:
    text = page.read_text("utf-8")
    loaded = _Loaded()
    loaded.feed(text)
    assert loaded.fetched == ["data:,"]
    assert "script" not in loaded.tags
    assert not re.search(r"@import|url\(", text)


def test_a_hostile_file_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    source = LOOP.format(name="option").replace('"cuda"', '"cuda", enabled="<script>" in str(model)')
    (folder / "train.py").write_text(source)
    text = render(audited(folder), "2026-01-01")
    loaded = _Loaded()
    loaded.feed(text)
    assert not {"script", "img"} & loaded.tags
    assert "&lt;script&gt;" in text


def test_broken_files_are_listed_and_the_others_analysed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(LOOP.format(name="option"))
    (tmp_path / "broken.py").write_text("loss.backward(\n")
    out = tmp_path / "report.html"
    assert main(["audit", str(tmp_path), str(tmp_path / "missing"), "--output", str(out)]) == 2
    text = out.read_text("utf-8")
    assert "AMP900" in text
    assert "AMP101" in text
    said = capsys.readouterr()
    assert "missing: no such file or directory" in said.err
    assert "Traceback" not in said.err


def test_a_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    out = tmp_path / "nowhere" / "report.html"
    with pytest.raises(SystemExit) as exit_:
        main(["audit", str(tmp_path), "--output", str(out)])
    assert exit_.value.code == 2
    assert f"no such folder: {out.parent}" in capsys.readouterr().err


def test_a_page_for_which_there_is_no_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    (tmp_path / "train.py").write_text("x = 1\n")
    assert main(["audit", str(tmp_path), "--output", "/dev/full"]) == 2
    assert capsys.readouterr().err == "ampcheck: /dev/full: cannot be written: No space left on device\n"


def test_the_spelling_of_check_is_understood(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    out = tmp_path / "report.html"
    assert main(["audit", str(tmp_path), "--output-file", str(out)]) == 0
    assert out.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_what_was_found_is_said_beside_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(LOOP.format(name="option"))
    out = tmp_path / "report.html"
    assert main(["audit", str(tmp_path), "--output", str(out)]) == 0
    assert capsys.readouterr().out == f"wrote {out}\n1 error in 1 file analysed\n"


def test_nothing_to_show_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    assert main(["audit", str(tmp_path), "--output", "-"]) == 0
    assert "No training loop was found" in capsys.readouterr().out


def test_a_notebook_is_placed_by_cell(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# Training"},
        {"cell_type": "code", "source": LOOP.format(name="option")},
    ]
    file = tmp_path / "train.ipynb"
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    audit = audited(file)
    (section,) = audit.sections
    assert audit.places.full(section.loop.place) == f"{file}:cell 2:8"
    assert "cell 2, line 10" in render(audit, "2026-01-01")


def test_the_replay_s_figures_stand_beside_the_picture(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from ampcheck.finding import Replay

    audit = audited(checkout / "fixtures" / "tour" / "plain_amp.py")
    shown = Replay("confirmed", "cpu", {"gradient": 0.12500000298}, "norm at step 0.125 = M/S, expected 1.0")
    findings = tuple(replace(f, replay=shown) for f in audit.report.findings)
    text = render(Audit(replace(audit.report, findings=findings), audit.analysed, ["x"], registry.load()), "")
    figure = text[text.index('id="loop-1"') : text.index("</figure>")]
    assert "norm at step 0.125 = M/S, expected 1.0" in figure
    assert "<dt>gradient</dt><dd>0.125</dd>" in figure
