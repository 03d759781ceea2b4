"""The little that is asked of git, by its own program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["GitError", "Repository", "content", "hunks", "repository_of"]

# What a user's configuration may change of a diff is set here.
PLAIN = (
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--find-renames",
    "--ignore-submodules",
)


class GitError(Exception):
    """Git cannot answer; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A working tree: its top, the commit that it is compared with, and the files that differ.

    `changed` leads from the real path of each to its path in that commit, None where it did not exist.
    """

    top: str
    base: str
    changed: Mapping[str, str | None]


def repository_of(folder: str, revision: str, known: Mapping[str, Repository]) -> Repository:
    """The repository that holds a folder, compared with where it left a revision; raises `GitError`."""
    try:
        top = os.path.realpath(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")))
    except GitError as error:
        raise GitError(f"--since: {folder}: {error}") from None
    if top in known:
        return known[top]
    try:
        commit = (
            _git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
        )
    except GitError:
        raise GitError(
            f"--since: git knows no revision {revision!r} in {top}; in CI, fetch the whole history"
        ) from None
    try:
        base = _git(top, "merge-base", commit, "HEAD").decode().split()[0]
    except GitError as error:
        why = str(error) or "they have no common ancestor; in a shallow clone, fetch the whole history"
        raise GitError(f"--since: {revision!r} and HEAD cannot be compared: {why}") from None
    return Repository(top, base, {os.path.join(top, new): old for new, old in _changed(top, base)})


def _changed(top: str, base: str) -> Iterator[tuple[str, str | None]]:
    """Each file that differs, with the name that it had."""
    fields = iter(_git(top, "diff", "--name-status", "-z", *PLAIN, base, "--").split(b"\0"))
    for status in fields:
        if not status:
            continue
        old = os.fsdecode(next(fields))
        if status[:1] in b"RC":
            yield os.fsdecode(next(fields)), old
        elif status[:1] != b"D":
            yield old, None if status[:1] == b"A" else old
    for name in _git(top, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0"):
        if name:
            yield os.fsdecode(name), None


def content(repository: Repository, old: str) -> bytes:
    """A file as it was at the base."""
    return _git(repository.top, "cat-file", "blob", f"{repository.base}:{old}")


def hunks(repository: Repository, path: str, old: str) -> bytes:
    """The differences of one file, without lines around them."""
    lines = ("--unified=0", "--inter-hunk-context=0", "--text")
    return _git(repository.top, "diff", *lines, *PLAIN, repository.base, "--", path, old)


def _git(folder: str, *arguments: str) -> bytes:
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1"}
    try:
        run = subprocess.run(
            ["git", "-C", folder, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    if run.returncode:
        said = run.stderr.decode(errors="replace").strip().splitlines()
        why = said[0].removeprefix("fatal: ") if said else ""
        if "dubious ownership" in why:  # a container that runs as another user than the one who checked out
            why += "; allow it with: git config --global --add safe.directory FOLDER"
        raise GitError(why)
    return run.stdout
