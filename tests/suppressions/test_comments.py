"""Suppression comments: where they stand, what they cover, and what is said of those that cover nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.check import Options, check_paths
from ampcheck.finding import Report
from tests.notebooks import notebook

SETUP = """\
import torch
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""
LOOP = """\
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0){end}
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
WRAPPED = """\
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    norm = torch.nn.utils.clip_grad_norm_({first}
        model.parameters(),{inner}
        1.0,
    ){last}
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
FAULT = ("AMP101", 6)


def report(folder: Path, text: str | bytes, name: str = "train.py", **options: frozenset[str]) -> Report:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = check_paths([str(path)], options=Options(**options))  # type: ignore[arg-type]
    assert not found.failures
    return found


def found(
    folder: Path, text: str | bytes, name: str = "train.py", **options: frozenset[str]
) -> list[tuple[str, int]]:
    return [(f.code, f.site.line) for f in report(folder, text, name, **options).findings]


def loop(comment: str = "") -> str:
    return SETUP + LOOP.format(end=f"  {comment}" if comment else "")


# --- a line -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        "# ampcheck: ignore[clip-before-unscale]",
        "# ampcheck: ignore[AMP101]",
        "# ampcheck: ignore[amp101]",
        "# ampcheck: ignore[AMP1]",
        "#ampcheck:ignore[AMP101]",
        "# AMPcheck: Ignore[ AMP101 ]",
        "# ampcheck: ignore[AMP101] the threshold was tuned with the scale",
        "# type: ignore  # ampcheck: ignore[AMP101]  # noqa",
    ],
)
def test_a_comment_on_the_line_silences_its_rule(tmp_path: Path, comment: str) -> None:
    assert found(tmp_path, loop()) == [FAULT]
    silenced = report(tmp_path, loop(comment))
    assert not silenced.findings
    assert [(f.code, f.site.line) for f in silenced.silenced] == [FAULT]


@pytest.mark.parametrize("place", ["first", "inner", "last"])
def test_a_statement_of_several_lines(tmp_path: Path, place: str) -> None:
    none = dict.fromkeys(("first", "inner", "last"), "")
    assert found(tmp_path, SETUP + WRAPPED.format(**none)) == [FAULT]
    assert found(tmp_path, SETUP + WRAPPED.format(**none | {place: "  # ampcheck: ignore[AMP101]"})) == []


def test_the_first_line_covers_what_stands_further_down(tmp_path: Path) -> None:
    """The call is on the third line of its statement."""
    text = loop().replace(
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "    norms.append(  # ampcheck: ignore[AMP101]\n        [\n"
        "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        ]\n    )",
    )
    assert found(tmp_path, text) == []
    assert found(tmp_path, text.replace("  # ampcheck: ignore[AMP101]", "")) == [("AMP101", 8)]


def test_another_line_is_not_covered(tmp_path: Path) -> None:
    text = loop().replace("scaler.update()", "scaler.update()  # ampcheck: ignore[AMP101]")
    assert found(tmp_path, text) == [FAULT, ("AMP901", 8)]


def test_another_rule_is_not_silenced(tmp_path: Path) -> None:
    assert found(tmp_path, loop("# ampcheck: ignore[AMP102]")) == [FAULT, ("AMP901", 6)]


@pytest.mark.parametrize("quote", ['"', '"""'])
def test_a_string_is_no_comment(tmp_path: Path, quote: str) -> None:
    text = loop().replace("1.0)", f"1.0); s = {quote}# ampcheck: ignore[AMP101]{quote}")
    assert found(tmp_path, text) == [FAULT]


# --- a function, a file -------------------------------------------------------------------------------------------


def functions(first: str = "", inside: str = "", decorator: str = "") -> str:
    body = LOOP.format(end="").replace("\n    ", "\n        ").replace("for x", "    for x")
    return f"{SETUP}{decorator}def one(loader):{first}\n{inside}{body}\n\ndef two(loader):\n{body}"


def test_a_function_has_a_comment_of_its_own(tmp_path: Path) -> None:
    assert [code for code, _ in found(tmp_path, functions())] == ["AMP101", "AMP101"]
    (left,) = found(tmp_path, functions(first="  # ampcheck: ignore-function[AMP101]"))
    assert left[1] > 12
    assert (
        len(found(tmp_path, functions(inside="    # ampcheck: ignore-function[clip-before-unscale]\n"))) == 1
    )
    assert len(found(tmp_path, functions(decorator="@timed  # ampcheck: ignore-function[AMP101]\n"))) == 1


def test_a_function_that_is_wrapped_and_asynchronous(tmp_path: Path) -> None:
    text = functions().replace(
        "def one(loader):", "async def one(  # ampcheck: ignore-function[AMP1]\n    loader,\n):"
    )
    assert len(found(tmp_path, text)) == 1


def test_inside_of_a_function_the_innermost_is_meant(tmp_path: Path) -> None:
    text = SETUP + (
        "def outer(loader):\n"
        "    def inner(x):  # ampcheck: ignore-function[AMP101]\n"
        "        return model(x)\n"
        + LOOP.format(end="").replace("\n    ", "\n        ").replace("for x", "    for x")
    )
    assert found(tmp_path, text) == [("AMP901", 5), ("AMP101", 9)]


def test_a_file_has_a_comment_of_its_own(tmp_path: Path) -> None:
    assert found(tmp_path, "# ampcheck: ignore-file[AMP101]\n" + loop()) == []
    assert found(tmp_path, loop() + "# ampcheck: ignore-file[AMP1]\n") == []


# --- what is wrong with a comment ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# ampcheck: ignore[AMP101, AMP1O1]", "unknown rule 'AMP1O1': did you mean"),
        ("# ampcheck: ignore[AMP101, AMP102]", "`AMP102` is silenced here, and nothing is found"),
        ("# ampcheck: ignre[AMP101]", "`ignre` is unknown: did you mean `ignore[...]`?"),
        ("# ampcheck: ignore-funtion[AMP101]", "did you mean `ignore-function[...]`?"),
        ("# ampcheck: disable=AMP101", "did you mean `ignore[...]`?"),
        ("# ampcheck: noqa", "did you mean `ignore[...]`?"),
        ("# ampcheck: ignore", "say which rules: `# ampcheck: ignore[clip-before-unscale]`"),
        ("# ampcheck: ignore[]", "say which rules"),
        ("# ampcheck: ignore(AMP101)", "say which rules"),
        ("# ampcheck: ignore[AMP101", "say which rules"),
        ("# ampcheck: ignore-function[AMP101]", "no function here"),
    ],
)
def test_a_comment_that_does_nothing_is_reported(tmp_path: Path, comment: str, said: str) -> None:
    complaints = [f for f in report(tmp_path, loop(comment)).findings if f.code == "AMP901"]
    assert [f.site.line for f in complaints] == [6]
    assert said in complaints[0].message
    line = (tmp_path / "train.py").read_text().split("\n")[5]
    named = line[complaints[0].site.column - 1 : complaints[0].site.end_column - 1]
    assert named in (
        comment,
        "AMP102",
        "AMP1O1",
        "# ampcheck: ignore",
        "# ampcheck: noqa",
        "# ampcheck: disable",
    )


@pytest.mark.parametrize(
    ("comment", "write"),
    [
        ("# ampchek: ignore[AMP101]", "ignore[AMP101]"),
        ("# apmcheck: ignore", "ignore[clip-before-unscale]"),
        ("# amp-check: ignore-file[AMP101, AMP102]", "ignore-file[AMP101, AMP102]"),
        ("# ampcheck ignore[AMP101]", "ignore[AMP101]"),
        ("# ampcheck - ignre[clip-before-unscale]", "ignore[clip-before-unscale]"),
        ("# ampcheck-ignore[AMP101]", "ignore[AMP101]"),
        ("# ampcheck: AMP101", "ignore[AMP101]"),
        ("# noqa: AMP101", "ignore[AMP101]"),
        ("# noqa: E501, AMP101, clip-inside-window tuned", "ignore[AMP101, clip-inside-window]"),
        ("# ruff: noqa: AMP101", "ignore-file[AMP101]"),
        ("# type: ignore[AMP101]", "ignore[AMP101]"),
        ("# pylint: disable=AMP101", "ignore[AMP101]"),
        ("# type: ignore[assignment]  # ampchek: ignore[AMP101]", "ignore[AMP101]"),
    ],
)
def test_a_comment_that_was_meant_for_us_is_reported(tmp_path: Path, comment: str, write: str) -> None:
    found = report(tmp_path, loop(comment)).findings
    assert [(f.code, f.site.line) for f in found] == [FAULT, ("AMP901", 6)]
    assert found[1].message.endswith(f"`# ampcheck: {write}`")
    line = (tmp_path / "train.py").read_text().split("\n")[5]
    named = line[found[1].site.column - 1 : found[1].site.end_column - 1]
    assert named.startswith("#")
    assert named in comment


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: E501",
        "# noqa: E501 see AMP101 for why",
        "# type: ignore[assignment]",
        "# pylint: disable=no-member",
        "# precheck: ignore[some-thing]",
        "# we ignore what ampcheck says",
        "# ampcheck ignores this loop",
        "# in ampcheck ignore [this]",
        "# ampcheck: AMP101 is what it finds here",
        "# AMP101 is right",
        "# expect: AMP101",
    ],
)
def test_what_is_not_for_us_is_left_in_peace(tmp_path: Path, comment: str) -> None:
    assert found(tmp_path, loop(comment)) == [FAULT]


def test_another_tool_may_be_told_too(tmp_path: Path) -> None:
    assert found(tmp_path, loop("# noqa: AMP101  # ampcheck: ignore[AMP101]")) == []


def test_a_comment_on_a_line_of_its_own(tmp_path: Path) -> None:
    (complaint,) = report(tmp_path, "# ampcheck: ignore[AMP101]\n" + SETUP).findings
    assert (complaint.code, complaint.site.line) == ("AMP901", 1)
    assert "a line of its own" in complaint.message


def test_prose_is_left_in_peace(tmp_path: Path) -> None:
    assert found(tmp_path, "# ampcheck: this file is a fixture of ours\nloss.backward()\n") == []


def test_it_is_reported_where_the_loop_is_gone(tmp_path: Path) -> None:
    """No word of a training step is left in the file."""
    assert found(tmp_path, "x = 1  # ampcheck: ignore[AMP101]\n") == [("AMP901", 1)]
    assert found(tmp_path, "ampcheck = (\n") == []


def test_a_rule_that_was_not_looked_for_is_not_called_unused(tmp_path: Path) -> None:
    assert found(tmp_path, loop("# ampcheck: ignore[AMP101, AMP318]")) == []
    only = frozenset({"AMP102"})
    assert found(tmp_path, loop("# ampcheck: ignore[AMP101]"), select=only) == []


def test_a_possible_finding_is_a_use(tmp_path: Path) -> None:
    text = SETUP + (
        "for i, (x, y) in enumerate(loader):\n"
        "    criterion(model(x), y).backward()\n"
        "    if (i + 1) % args.often == 0:\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
    )
    path = tmp_path / "train.py"
    path.write_text(text)
    (possible,) = [
        f for f in check_paths([str(path)], options=Options(possible=True)).findings if f.code == "AMP305"
    ]
    assert possible.verdict == "possible"
    line = possible.site.line
    lines = text.split("\n")
    lines[line - 1] += "  # ampcheck: ignore[AMP305]"
    assert found(tmp_path, "\n".join(lines)) == []


def test_the_complaint_itself_can_be_silenced(tmp_path: Path) -> None:
    assert found(tmp_path, loop("# ampcheck: ignore[AMP101, AMP102, AMP901]")) == []
    assert found(tmp_path, loop("# ampcheck: ignore[AMP101, AMP901]")) == []


# --- texts of all kinds -------------------------------------------------------------------------------------------


def test_a_notebook(tmp_path: Path) -> None:
    cells = [SETUP, "%%time\n" + LOOP.format(end="  # ampcheck: ignore[AMP101, AMP102]")]
    kept = report(tmp_path, notebook(*cells), "train.ipynb")
    (complaint,) = kept.findings
    at = kept.notebooks[complaint.site.path].place(complaint.site)
    assert (complaint.code, at.cell, at.line, at.column) == ("AMP901", 2, 4, 89)


def test_a_text_that_python_tokenizes_no_further(tmp_path: Path) -> None:
    """The file is reported; a comment in front of the fault is read all the same."""
    path = tmp_path / "train.py"
    path.write_text("x = 1  # ampcheck: ignore[AMP101]\nloss.backward(\n")
    assert [f.code for f in check_paths([str(path)]).findings] == ["AMP900"]


def test_a_finding_in_a_file_that_another_one_leads_to(tmp_path: Path) -> None:
    """The comment stands in the helper, the loop in another file of the check."""
    helper = (
        "import torch\n\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0){}\n"
    )
    (tmp_path / "train.py").write_text(
        "from helper import clip\n"
        + loop().replace("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip(model)")
    )
    for end, left in (("", [("helper.py", 4)]), ("  # ampcheck: ignore[AMP101]", [])):
        (tmp_path / "helper.py").write_text(helper.format(end))
        kept = check_paths([str(tmp_path)]).findings
        assert [(Path(f.site.path).name, f.site.line) for f in kept] == left
