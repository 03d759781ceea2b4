"""A settings file: what it may hold, and what is said of what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.settings.errors import SettingsError
from ampcheck.settings.reading import read

EVERYTHING = """\
[project]
name = "x"

[tool.ampcheck]
select = ["AMP1", "missing-update"]
extend-select = ["AMP318"]
ignore = ["amp102"]
severity = { AMP3 = "note" }
possible = true
fail-on = "error"
exclude = ["third_party/", "!third_party/ours"]
respect-gitignore = false
force-exclude = true
roots = ["lib/python"]
scalers = ["company.amp.LossScaler"]
optimizers = ["Shampoo"]
accumulators = ["Engine"]
windows = ["virtual_batches"]
device = "cpu"

[tool.ampcheck.per-file-ignores]
"examples/**" = ["AMP3"]
"""


def written(folder: Path, text: str, name: str = "pyproject.toml") -> str:
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


def problems(path: str) -> list[tuple[int, str]]:
    with pytest.raises(SettingsError) as caught:
        read(path)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}:")
    return list(caught.value.problems)


def test_every_key_is_read(tmp_path: Path) -> None:
    settings = read(written(tmp_path, EVERYTHING))
    assert settings.root == str(tmp_path)
    assert (settings.select, settings.extend_select, settings.ignore) == (
        ("AMP1", "missing-update"),
        ("AMP318",),
        ("amp102",),
    )
    assert settings.per_file_ignores == (("examples/**", ("AMP3",)),)
    assert settings.severity == (("AMP3", "note"),)
    assert (settings.possible, settings.force_exclude, settings.respect_gitignore) == (True, True, False)
    assert (settings.fail_on, settings.device) == ("error", "cpu")
    assert settings.exclude == ("third_party/", "!third_party/ours")
    assert settings.roots == ("lib/python",)
    assert (settings.scalers, settings.optimizers) == (("company.amp.LossScaler",), ("Shampoo",))
    assert (settings.accumulators, settings.windows) == (("Engine",), ("virtual_batches",))


def test_a_file_of_our_own_needs_no_section(tmp_path: Path) -> None:
    assert read(written(tmp_path, 'ignore = ["AMP1"]\n', "ampcheck.toml")).ignore == ("AMP1",)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[tool.ampcheck]\n\nselct = ["AMP1"]\n', 3, "unknown key `selct`: did you mean `select`?"),
        ('[tool.ampcheck]\nper_file_ignores = {}\n', 2, "did you mean `per-file-ignores`?"),
        ('[tool.ampcheck]\nignore = [\n  "AMP101",\n  "AMP1O2",\n]\n', 4, "unknown rule 'AMP1O2': did you mean AMP"),
        ('[tool.ampcheck]\nignore = "AMP101"\n', 2, "`ignore` is a list of strings, such as ['AMP101']"),
        ("[tool.ampcheck]\nignore = [101]\n", 2, "`ignore` is a list of strings, and 101 is none"),
        ('[tool.ampcheck]\npossible = "yes"\n', 2, "`possible` is true or false, not 'yes'"),
        ('[tool.ampcheck]\nfail-on = "fatal"\n', 2, '`fail-on` is one of "error", "warning", "note", "never", not'),
        ('[tool.ampcheck]\nfail-on = []\n', 2, "`fail-on` is one of"),
        ('[tool.ampcheck]\nseverity = "note"\n', 2, "`severity` is a table such as"),
        ('[tool.ampcheck.severity]\nAMP101 = "note"\nAMP102 = "fatal"\n', 3, "a severity is one of"),
        ('[tool.ampcheck.severity]\nclip-befor-unscale = "note"\n', 2, "did you mean clip-before-unscale"),
        ('[tool.ampcheck.per-file-ignores]\n"a.py" = "AMP1"\n', 2, "`per-file-ignores.a.py` is a list of strings"),
        ('[tool.ampcheck.per-file-ignores]\n"!" = ["AMP1"]\n', 2, "`!` is no pattern"),
        ('[tool.ampcheck]\nscalers = ["a-b"]\n', 2, "'a-b' is no Python name"),
        ('[tool.ampcheck]\nexclude = ["# x"]\n', 2, "'# x' matches no file"),
        ("[tool]\nampcheck = 3\n", 2, "`tool.ampcheck` is no table"),
        ("[tool.ampcheck]\nignore = [\n", 3, "not TOML:"),
        ('[tool.ampcheck]\nignore = ["AMP1"]\nignore = []\n', 3, "not TOML: Cannot overwrite a value"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    ((at, message),) = problems(written(tmp_path, text))
    assert said in message
    assert at == line


def test_all_mistakes_are_said_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, '[tool.ampcheck]\nb = 1\nselect = ["AMP1O1"]\na = 2\n')
    assert [line for line, _ in problems(path)] == [2, 3, 4]


def test_other_encodings_and_missing_files(tmp_path: Path) -> None:
    latin = tmp_path / "ampcheck.toml"
    latin.write_bytes("# \xe9\nignore = []".encode("latin-1"))
    assert "save it as UTF-8" in problems(str(latin))[0][1]
    assert problems(str(tmp_path / "none.toml")) == [(0, "cannot be read: No such file or directory")]
    marked = tmp_path / "marked.toml"
    marked.write_bytes(b'\xef\xbb\xbfignore = ["AMP1"]\r\npossible = true\r\n')
    assert read(str(marked)).possible
