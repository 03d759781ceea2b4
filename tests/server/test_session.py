"""What the server says below the transport: it is what a check says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ampcheck import program as p
from ampcheck.check import check_paths
from ampcheck.finding import Finding
from ampcheck.running import Exploration, again, explore
from ampcheck.server import session as server_session
from ampcheck.server.files import OpenFile, text
from ampcheck.server.session import Judged, Session
from ampcheck.settings import Nearest
from ampcheck.source import unsaved
from tests.server.edits import HELPERS, TRAIN, texts

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def opened(**contents: str) -> dict[str, OpenFile]:
    names = ((f"{name}.py", content) for name, content in contents.items())
    return {path: text(path, f"file:///{path}", 1, content) for path, content in names}


def checked(files: Mapping[str, OpenFile], settings: Nearest) -> tuple[Finding, ...]:
    """What a check says that has never seen these files before."""
    with unsaved({os.path.abspath(path): file.data for path, file in files.items()}):
        return check_paths(sorted(files), settings=settings).findings


def said(judged: Judged) -> list[str]:
    return [f"{f.code}:{f.site.line}" for f in judged.findings]


def agree(session: Session, files: Mapping[str, OpenFile]) -> None:
    """The session's findings are those of a fresh check, to the last event of the last witness."""
    outcome = session.check(files)
    fresh = checked(files, session.settings())
    for path, judged in outcome.files.items():
        expected = tuple(f for f in fresh if f.site.path == path)
        if judged.shift is not None:
            expected = tuple(f for f in expected if f.code in ("AMP900", "AMP903"))
        assert judged.findings == expected


def test_what_is_in_the_editor_counts_also_for_the_files_that_import_it() -> None:
    unclipped = HELPERS.replace(
        "    return torch.nn.utils.clip_grad_norm_(model.parameters(), limit)", "    pass"
    )
    early = TRAIN.replace("            scaler.unscale_(optimizer)\n", "")
    session = Session()
    assert said(session.check(opened(train=early, helpers=HELPERS)).files["helpers.py"]) == ["AMP101:5"]
    assert said(session.check(opened(train=early, helpers=unclipped)).files["helpers.py"]) == []
    # On disk the clip is there still.
    assert said(session.check(opened(train=early)).files["train.py"]) == ["AMP604:22", "AMP101:27"]


# The last in this file: what follows in it would not be counted either.
@pytest.mark.usefixtures("uncounted")
@pytest.mark.parametrize("seed", range(4))
def test_after_random_edits_it_says_what_a_check_says(seed: int) -> None:
    """In a file and one that it imports: 250 edits each time, checked after each, compared after every tenth."""
    session = Session(lambda: Nearest(given={"possible": True}))
    helpers = texts(HELPERS, seed, 250)
    for number, train in enumerate(texts(TRAIN, seed + 100, 250), start=1):
        files = opened(helpers=next(helpers) if number % 5 == 0 else HELPERS, train=train)
        if number % 10 == 0:
            agree(session, files)
        else:
            session.check(files)


def test_a_moment_without_python_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found out of a file is still there when it is Python again."""
    runs: list[str] = []

    def counted(program: p.Program, *rest: Any) -> Exploration:
        runs.append(program.main.path)
        return explore(program, *rest)

    monkeypatch.setattr(again, "explore", counted)
    session = Session()
    agree(session, opened(train=TRAIN))
    before = list(runs)
    agree(session, opened(train=TRAIN + "\nx = \n"))
    agree(session, opened(train=TRAIN + "\nx = (\n"))
    agree(session, opened(train=TRAIN + "\n# done\n"))
    assert runs == before


def test_a_file_that_stays_broken_keeps_no_memory_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What two rounds of checks have read is kept at most, beside a file that is broken all the time."""
    monkeypatch.setattr(server_session, "MOST_BROKEN", 10)
    session = Session()
    for number in range(50):
        session.check(opened(train=TRAIN + f"\nx = {number} (\n", helpers=HELPERS + f"\n# {number}\n"))
        assert len(session._memory.readings._sources._held) <= 2 * 2 * 10
