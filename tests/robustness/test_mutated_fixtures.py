"""Whatever is done to a training file, checking it neither raises nor fails on it: it is analysed or refused.

Each example takes a fixture and mutates its lines or bytes.  Most results are not sensible programs, many are not
programs; all of them are what an editor sees while somebody types.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampcheck.check import Options, check_paths
from ampcheck.finding import Finding
from tests.expectations import fixture_files

pytestmark = pytest.mark.usefixtures("uncounted")

FILES = [
    path
    for path in fixture_files()
    if path.suffix == ".py" and path.stat().st_size < 3000 and "truncated" not in str(path)
]
LINES = {path: path.read_bytes().decode(errors="replace").splitlines(keepends=True) for path in FILES}
ALL_LINES = sorted({line for lines in LINES.values() for line in lines if line.strip()})

BRIEFLY = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
fixtures = st.sampled_from(FILES)
places = st.integers(0, 200)


def check(folder: Path, data: bytes) -> tuple[Finding, ...]:
    """The findings in a file of these bytes, after making sure that the analysis itself did not fail."""
    path = folder / "train.py"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = check_paths([str(path)], options=Options(possible=True))
    internal = [finding.message for finding in report.findings if finding.code == "AMP903"]
    assert not internal, data.decode(errors="replace")
    assert all(finding.site.line >= 1 and finding.message for finding in report.findings)
    return report.findings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


@BRIEFLY
@given(path=fixtures, dropped=st.sets(places, min_size=1, max_size=3))
def test_lines_are_missing(folder: Path, path: Path, dropped: set[int]) -> None:
    lines = LINES[path]
    gone = {place % len(lines) for place in dropped}
    check(folder, "".join(line for i, line in enumerate(lines) if i not in gone).encode())


@BRIEFLY
@given(path=fixtures, place=places, times=st.integers(1, 3))
def test_a_line_is_repeated(folder: Path, path: Path, place: int, times: int) -> None:
    lines = list(LINES[path])
    i = place % len(lines)
    lines[i:i] = [lines[i]] * times
    check(folder, "".join(lines).encode())


@BRIEFLY
@given(path=fixtures, one=places, other=places)
def test_lines_are_swapped(folder: Path, path: Path, one: int, other: int) -> None:
    lines = list(LINES[path])
    i, j = one % len(lines), other % len(lines)
    lines[i], lines[j] = lines[j], lines[i]
    check(folder, "".join(lines).encode())


@BRIEFLY
@given(path=fixtures, place=places, line=st.sampled_from(ALL_LINES))
def test_a_line_of_another_program_is_pasted(folder: Path, path: Path, place: int, line: str) -> None:
    """At the indentation of the line that it is pasted before, so that most results are programs."""
    lines = list(LINES[path])
    i = place % len(lines)
    indent = lines[i][: len(lines[i]) - len(lines[i].lstrip())]
    lines.insert(i, f"{indent}{line.strip()}\n")
    check(folder, "".join(lines).encode())


@BRIEFLY
@given(path=fixtures, place=places, deeper=st.booleans())
def test_an_indentation_slips(folder: Path, path: Path, place: int, deeper: bool) -> None:
    lines = list(LINES[path])
    i = place % len(lines)
    lines[i] = f"    {lines[i]}" if deeper else lines[i].removeprefix("    ")
    check(folder, "".join(lines).encode())


@BRIEFLY
@given(path=fixtures, end=st.integers(0, 3000))
def test_the_rest_of_the_file_is_missing(folder: Path, path: Path, end: int) -> None:
    check(folder, "".join(LINES[path]).encode()[:end])


@BRIEFLY
@given(path=fixtures, place=st.integers(0, 3000), junk=st.binary(min_size=1, max_size=4))
def test_bytes_are_overwritten(folder: Path, path: Path, place: int, junk: bytes) -> None:
    data = bytearray("".join(LINES[path]).encode())
    at = place % len(data)
    # A null byte inside a string is for tests/test_source.py.
    data[at : at + len(junk)] = junk.replace(b"\x00", b"0")
    check(folder, bytes(data))


@BRIEFLY
@given(paths=st.lists(fixtures, min_size=2, max_size=3))
def test_programs_are_pasted_together(folder: Path, paths: list[Path]) -> None:
    check(folder, "\n".join("".join(LINES[path]) for path in paths).encode())


@settings(BRIEFLY, max_examples=20)
@given(path=fixtures)
def test_the_line_ends_are_another_systems(folder: Path, path: Path) -> None:
    plain = check(folder, "".join(LINES[path]).encode())
    crlf = check(folder, "".join(LINES[path]).replace("\n", "\r\n").encode())
    assert [(f.site, f.code, f.verdict) for f in plain] == [(f.site, f.code, f.verdict) for f in crlf]


@settings(BRIEFLY, max_examples=20)
@given(path=fixtures)
def test_findings_do_not_depend_on_what_was_checked_before(folder: Path, path: Path) -> None:
    data = "".join(LINES[path]).encode()
    first = check(folder, data)
    check(folder, b"from torch.cuda.amp import GradScaler\nGradScaler().scale(loss).backward()\n")
    assert [(f.site, f.code, f.message) for f in first] == [
        (f.site, f.code, f.message) for f in check(folder, data)
    ]
