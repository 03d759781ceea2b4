"""What has changed since a git revision, and which findings that touches.

Changed is what the working tree holds and the merge base of the revision and HEAD does not: commits of this branch,
staged and unstaged edits, files that git does not know yet.  What happened on the other branch meanwhile is not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ampcheck.changes.git import GitError, Repository, repository_of
from ampcheck.changes.lines import Changed, changed_lines
from ampcheck.changes.touching import evidence, surroundings
from ampcheck.events import Site
from ampcheck.finding import Failure, Finding, Report

__all__ = ["Changes", "GitError", "changes_since"]


@dataclass(slots=True)
class Changes:
    """The changes in every repository that is checked; a file's lines are compared when a finding asks for them."""

    repositories: Sequence[Repository]
    _files: dict[str, Changed | None]

    def touched(self, report: Report) -> Report:
        """The report with the findings that changes touch, and the failures of files that are changed."""
        unread = {failure.path for failure in report.failures}
        findings = [f for f in report.findings if self._touches(f, unread)]
        failures = [f for f in report.failures if self._concerns(f)]
        return replace(report, findings=tuple(findings), failures=tuple(failures))

    def _touches(self, finding: Finding, unread: set[str]) -> bool:
        if finding.witness is None and finding.site.path in unread:
            return self._file(finding.site.path) is not None
        return any(self._holds(site) for site in evidence(finding)) or any(
            self._lost_from(site) for site in surroundings(finding)
        )

    def _concerns(self, failure: Failure) -> bool:
        """A path that is no file was asked for and is not there: that is said whatever has changed."""
        return not os.path.isfile(failure.path) or self._file(failure.path) is not None

    def _holds(self, site: Site) -> bool:
        changed = self._file(site.path)
        return changed is not None and changed.holds(site.line, site.end_line)

    def _lost_from(self, site: Site) -> bool:
        changed = self._file(site.path)
        return changed is not None and changed.lost_from(site.line, site.end_line)

    def _file(self, path: str) -> Changed | None:
        """A file's changed lines, None where nothing has changed in it."""
        if path not in self._files:
            place = os.path.realpath(path)
            self._files[path] = None
            for repository in self.repositories:
                if place in repository.changed:
                    self._files[path] = changed_lines(repository, place, repository.changed[place])
        return self._files[path]


def changes_since(revision: str, paths: Sequence[str]) -> Changes:
    """The changes in the repositories that hold the paths (those that exist).

    Raises `GitError` without git, outside of a repository, and for a revision that is unknown or has no common
    ancestor with HEAD.
    """
    folders = [path if os.path.isdir(path) else os.path.dirname(path) or "." for path in paths]
    found: dict[str, Repository] = {}
    for folder in dict.fromkeys(folders):
        if os.path.isdir(folder):
            repository = repository_of(folder, revision, found)
            found[repository.top] = repository
    return Changes(tuple(found.values()), {})
