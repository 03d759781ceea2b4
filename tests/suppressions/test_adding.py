"""`--add-ignores`: everything found is silenced, and only comments are new."""

from __future__ import annotations

import ast
import json
import os
import stat
from pathlib import Path

import pytest

from ampcheck.cli import main
from ampcheck.fixes.files import replace_file
from tests.notebooks import notebook

SETUP = 'import torch\nscaler = torch.amp.GradScaler("cuda")\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n'
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
LOOP = f"""\
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    {CLIP}
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
IGNORE = "# ampcheck: ignore[clip-before-unscale]"


def silenced(path: Path, capsys: pytest.CaptureFixture[str]) -> bytes:
    """The bytes of a file after its findings were silenced; a second time changes nothing."""
    assert main(["check", str(path), "--isolated"]) == 1
    assert main(["check", str(path), "--add-ignores", "--isolated"]) == 0
    once = path.read_bytes()
    capsys.readouterr()
    assert main(["check", str(path), "--add-ignores", "--isolated"]) == 0
    assert capsys.readouterr().out == "silenced 0 findings in 0 files\n"
    assert path.read_bytes() == once
    assert main(["check", str(path), "--isolated"]) == 0
    return once


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CLIP, f"{CLIP}  {IGNORE}"),
        (f"{CLIP}   ", f"{CLIP}  {IGNORE}"),
        (f"{CLIP}  # noqa", f"{CLIP}  # noqa  {IGNORE}"),
        (f"{CLIP}; x = '#'", f"{CLIP}; x = '#'  {IGNORE}"),
        (
            f"{CLIP}  # ampcheck: ignore[AMP102] why  # noqa",
            f"{CLIP}  # ampcheck: ignore[AMP102, clip-before-unscale, unused-suppression] why  # noqa",
        ),
        (
            "torch.nn.utils.clip_grad_norm_(\n        model.parameters(),\n        1.0,\n    )",
            f"torch.nn.utils.clip_grad_norm_(  {IGNORE}\n        model.parameters(),\n        1.0,\n    )",
        ),
        (
            "torch.nn.utils.clip_grad_norm_(model.parameters(), \\\n        1.0)",
            f"torch.nn.utils.clip_grad_norm_(model.parameters(), \\\n        1.0)  {IGNORE}",
        ),
        (
            f'x = """\na\n""", {CLIP}, """\nb\n"""',
            f'x = """\na\n""", {CLIP}, """\nb\n"""  {IGNORE}',
        ),
    ],
)  # fmt: skip
def test_where_the_comment_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, after: str
) -> None:
    if "AMP102" in before:
        after = after.replace(", unused-suppression", "")
        path = tmp_path / "train.py"
        path.write_text(SETUP + LOOP.replace(CLIP, before))
        assert (
            main(["check", str(path), "--add-ignores", "--isolated"]) == 1
        )  # the unused one is left to people
        assert path.read_text() == SETUP + LOOP.replace(CLIP, after)
        return
    path = tmp_path / "train.py"
    path.write_text(SETUP + LOOP.replace(CLIP, before))
    assert silenced(path, capsys).decode() == SETUP + LOOP.replace(CLIP, after)


@pytest.mark.parametrize(
    ("encoding", "head", "end"),
    [
        ("utf-8", "# é\n", "\n"),
        ("utf-8", "# é\n", "\r\n"),
        ("utf-8", "# é\n", "\r"),
        ("utf-8-sig", "# é\n", "\n"),
        ("latin-1", "# -*- coding: latin-1 -*-\n# é\n", "\r\n"),
        ("utf-8", "\f\n# é\n", "\n"),
    ],
)
def test_encoding_and_line_ends_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str, head: str, end: str
) -> None:
    path = tmp_path / "train.py"
    text = (head + SETUP + LOOP).replace("\n", end)
    path.write_bytes(text.encode(encoding))
    assert silenced(path, capsys) == text.replace(CLIP, f"{CLIP}  {IGNORE}").encode(encoding)


def test_mixed_line_ends_and_no_end_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    text = (SETUP.replace("\n", "\r\n") + LOOP).removesuffix("\n")
    path.write_bytes(text.encode())
    assert silenced(path, capsys) == text.replace(CLIP, f"{CLIP}  {IGNORE}").encode()


def test_two_rules_on_one_line_share_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    text = SETUP + LOOP.replace(CLIP, f"{CLIP}; scaler.unscale_(optimizer); scaler.unscale_(optimizer)")
    path.write_text(text)
    after = silenced(path, capsys).decode()
    assert "# ampcheck: ignore[clip-before-unscale, double-unscale]\n" in after
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))


@pytest.mark.parametrize("form", ["lines", "string", "indented", "ascii"])
def test_a_notebook_keeps_its_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    path = tmp_path / "train.ipynb"
    data = json.loads(
        notebook(SETUP + "# é", {"cell_type": "markdown", "source": ["é"], "metadata": {}}, "%%time\n" + LOOP)
    )
    if form == "string":
        data["cells"][2]["source"] = "".join(data["cells"][2]["source"])
    text = json.dumps(data, indent={"lines": 1, "indented": 4}.get(form), ensure_ascii=form == "ascii") + "\n"
    path.write_text(text, "utf-8")
    assert silenced(path, capsys).decode() == text.replace(CLIP, f"{CLIP}  {IGNORE}")


def test_mode_and_link_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = tmp_path / "real.py"
    real.write_text(SETUP + LOOP)
    real.chmod(0o755)
    link = tmp_path / "train.py"
    link.symlink_to(real)
    silenced(link, capsys)
    assert link.is_symlink()
    assert stat.S_IMODE(os.stat(real).st_mode) == 0o755
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("real.py", "train.py")] == []


def test_a_file_that_cannot_be_written_is_said_and_the_others_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(SETUP + LOOP)

    def refusing(path: str, data: bytes) -> None:
        if path.endswith("a.py"):
            raise PermissionError(13, "Permission denied")
        replace_file(path, data)

    monkeypatch.setattr("ampcheck.suppressions.adding.replace_file", refusing)
    assert main(["check", str(tmp_path), "--add-ignores", "--isolated", "--format", "concise"]) == 2
    said = capsys.readouterr()
    assert "silenced 1 finding in 1 file\n" in said.out
    assert "a.py:6:5: AMP101" in said.out
    assert "a.py: cannot be written: Permission denied" in said.err
    assert IGNORE in (tmp_path / "b.py").read_text()
    assert (tmp_path / "a.py").read_text() == SETUP + LOOP


def test_standard_input_has_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-", "--add-ignores"]) == 2
    assert (
        capsys.readouterr().err == "ampcheck: --add-ignores needs files: it does not go with the path `-`\n"
    )
