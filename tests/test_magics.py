"""IPython's magics are taken out where IPython itself would see them, and nowhere else."""

from __future__ import annotations

import ast

import pytest

from ampcheck.magics import without_magics


def code(text: str) -> str:
    return "\n".join(line.code for line in without_magics(text))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("%matplotlib inline", "pass"),
        ("!pip install torch", "pass"),
        ("!!ls", "pass"),
        ("?torch", "pass"),
        ("torch.amp??", "pass"),
        ("model?", "pass"),
        ("/train 1", "pass"),
        ("if x:\n    !ls\nelse:\n    %cd ..", "if x:\n    pass\nelse:\n    pass"),
        ("!pip install a \\\n    b \\\n    c\nx = 1", "pass\n\n\nx = 1"),
        ("files = !ls", "files = None"),
        ("a, b = %env X", "a, b = None"),
        ("    files[0] = !ls", "files[0] = None"),
        ("x = !ls \\\n -l\ny = 1", "x = None\n\ny = 1"),
        ("%time x = 1", "x = 1"),
        ("%time -x", "pass"),
        ("%timeit train()", "pass"),
        ("%%time\nx = 1", "\nx = 1"),
        ("\n# comment\n%%capture out\n%%time\nx = 1", "\n\n\n\nx = 1"),
        ("%%bash\nls\n", "\n\n"),
        ("#@title Install\n%%sh\nls", "\n\n"),
        ("%%writefile train.py\nloss.backward()", "\n"),
        ("%%time?", ""),
    ],
)
def test_magics_are_taken_out_line_by_line(text: str, left: str) -> None:
    assert code(text) == left
    ast.parse(code(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "x = (a\n% b)",
        "x = a \\\n% b",
        'x = """\n%%bash\n!ls\n?\n"""',
        "x = '''\n%time\n''' % ()",
        "x = 'it\\'s' \\\n    % 3",
        "x = r'\\' + '(' \nprint(\n    '%d'\n    % 3,\n)",
        "assert x != y",
        "x = f'{y=!r} ?'",
        "f(a=1, b='!')  # = %what?",
        "x = {\n    # a ( that nobody closes\n    1:\n    !ls\n}",
        "x = [\n%time\n]",
        "x %= 3",
        "# %% a marker of editors",
        "x = '? = !'\ny = 'a' if b != '=' else '%'",
    ],
)
def test_what_only_looks_like_a_magic_stays(text: str) -> None:
    assert code(text) == text


def test_an_indented_cell_is_taken_as_it_is_meant() -> None:
    lines = without_magics("    x = 1\n    if x:\n        y = 2\n")
    assert [(line.code, line.shift) for line in lines] == [
        ("x = 1", 4),
        ("if x:", 4),
        ("    y = 2", 4),
        ("", 0),
    ]
    assert lines[2].original == "        y = 2"


def test_columns_count_from_the_lines_own_beginning() -> None:
    _, line = without_magics("if x:\n    %time  loss.backward()")
    assert (line.code, line.shift) == ("    loss.backward()", 7)


def test_a_large_cell_takes_no_longer_than_its_length() -> None:
    text = "x = 1\n" * 50_000 + "y = '''" + "\n%x" * 50_000
    assert len(without_magics(text)) == 100_001
