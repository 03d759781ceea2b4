"""What is wrong with a settings file, line by line."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SettingsError"]


class SettingsError(Exception):
    """A settings file cannot be used: its path, and each problem with its line (from 1; 0: the file as a whole)."""

    def __init__(self, path: str, problems: Iterable[tuple[int, str]]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{self.place(line)}: {message}" for line, message in self.problems))

    def place(self, line: int) -> str:
        """``pyproject.toml:12``."""
        return f"{self.path}:{line}" if line else self.path
