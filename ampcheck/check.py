"""Checks files: one file to its findings, many files to a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ampcheck.analysis import Analysed, traces_of
from ampcheck.finding import Failure, Finding, Report
from ampcheck.memory import Memory
from ampcheck.notebook import Cells
from ampcheck.placing import merged
from ampcheck.session import Sessions
from ampcheck.settings import Nearest, Options, SettingsError, python_files
from ampcheck.suppressions import Suppressions

__all__ = ["Analysed", "Options", "check_paths", "python_files", "traces_of"]


def check_paths(
    paths: Sequence[str],
    *,
    options: Options | None = None,
    settings: Nearest | None = None,
    on_file: Callable[[str], None] | None = None,
    on_analysed: Callable[[Analysed], None] | None = None,
    memory: Memory | None = None,
) -> Report:
    """Check files and the Python files under directories.

    What is reported of a file is said by its `settings`, or by `options` for all of them.  Every file is checked
    whatever happens to the others: one that cannot be read is finding AMP900 and a failure, one on which ampcheck
    itself breaks is AMP903; a settings file that cannot be used is a failure, and the files that it is for are left.
    `on_file` is called before each file, `on_analysed` with what was seen of each that holds a word of training.
    With a `memory`, what has not changed since it was last used is not done again.
    """
    files = list(python_files(paths, settings))
    checked_files = {os.path.abspath(path): path for path in files}
    sessions = Sessions(checked_files, settings, options or Options(), memory)
    findings: list[Finding] = []
    failures: list[Failure] = []
    comments: dict[str, Suppressions] = {}
    notebooks: dict[str, Cells] = {}
    count = 0
    for path in files:
        if on_file is not None:
            on_file(path)
        try:
            checked = sessions.of(path).check(path)
        except SettingsError as error:
            failures += [
                Failure(error.path, f"line {n}: {said}" if n else said) for n, said in error.problems
            ]
            continue
        if on_analysed is not None and checked.analysed is not None:
            on_analysed(checked.analysed)
        findings += checked.findings
        failures += checked.failures
        count += not checked.failures
        if checked.cells is not None:
            notebooks[path] = checked.cells
        if checked.suppressions is not None:
            comments[path] = checked.suppressions
    # Some lie in other files of this check, whose comments and settings may be others.
    findings, silenced = sessions.sifted(merged(findings), comments)
    return Report(
        sessions.wanted(findings), tuple(dict.fromkeys(failures)), count, notebooks, sessions.wanted(silenced)
    )
