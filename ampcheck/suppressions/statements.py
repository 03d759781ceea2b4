"""The comments, statements and functions of a text, as Python's own tokenizer sees them.

What stands in a string is no comment.  A text that breaks off is read as far as it goes.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Comment", "Function", "Lines", "Statements", "statements_of"]

# Tokens of their own since Python 3.12.
FSTRING_START = getattr(tokenize, "FSTRING_START", -1)
FSTRING_END = getattr(tokenize, "FSTRING_END", -1)


class Lines(NamedTuple):
    """Lines `first` to `last` (from 1), both included."""

    first: int
    last: int

    def __contains__(self, line: object) -> bool:
        return isinstance(line, int) and self.first <= line <= self.last


class Comment(NamedTuple):
    """A comment: its line and column (from 1) and its text."""

    line: int
    column: int
    text: str


class Function(NamedTuple):
    """A function: the lines of its decorators and its `def`, and the last line of its body."""

    head: Lines
    end: int


@dataclass(slots=True)
class Statements:
    """What a text holds: comments, the lines of each statement (of a compound one, of its head), functions.

    `unending` are lines that no comment can end: they break off in a string or with a backslash.
    """

    comments: list[Comment] = field(default_factory=list)
    statements: list[Lines] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    unending: set[int] = field(default_factory=set)

    def around(self, line: int) -> Lines | None:
        """The statement that a line belongs to."""
        return next((lines for lines in self.statements if line in lines), None)

    def function_around(self, line: int) -> Function | None:
        """The innermost function that a line belongs to, its decorators included."""
        return max(
            (f for f in self.functions if f.head.first <= line <= f.end),
            key=lambda function: function.head.first,
            default=None,
        )


def statements_of(text: str) -> Statements:
    """Read a text."""
    reader = _Reader()
    reader.found.unending |= {n for n, line in enumerate(text.split("\n"), start=1) if line.endswith("\\")}
    try:
        for token in _tokens(text):
            reader.take(token)
    except (tokenize.TokenError, SyntaxError):
        pass  # the parser has something to say about it
    reader.finish()
    return reader.found


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text).readline)


class _Reader:
    """Puts tokens together to statements and functions."""

    def __init__(self) -> None:
        self.found = Statements()
        self.words: list[str] = []
        self.first = 0
        self.decorated = 0  # the line of the first decorator, 0 without one
        self.waiting: Lines | None = None  # the head of a function whose body has not begun
        self.open: list[Lines | None] = []  # the heads of the blocks around
        self.last = 0
        self.strings: list[int] = []  # the lines on which the f-strings around began

    def take(self, token: tokenize.TokenInfo) -> None:
        line, column = token.start
        match token.type:
            case tokenize.COMMENT:
                self.found.comments.append(Comment(line, column + 1, token.string))
            case tokenize.NL | tokenize.ENDMARKER:
                pass
            case tokenize.INDENT:
                self.open.append(self.waiting)
                self.waiting = None
            case tokenize.DEDENT:
                self._close()
            case tokenize.NEWLINE:
                self._end_statement(line)
            case _:
                if token.type == tokenize.STRING:
                    self.found.unending.update(range(line, token.end[0]))
                elif token.type == FSTRING_START:
                    self.strings.append(line)
                elif token.type == FSTRING_END:
                    self.found.unending.update(range(self.strings.pop(), line))
                self.first = self.first or line
                if len(self.words) < 2:
                    self.words.append(token.string)

    def finish(self) -> None:
        """The text is at its end."""
        self._end_waiting()
        while self.open:
            self._close()
        self.found.functions.sort()

    def _end_statement(self, line: int) -> None:
        if not self.words:
            return
        self._end_waiting()
        lines = Lines(self.first, line)
        self.found.statements.append(lines)
        self.last = line
        if self.words[0] == "@":
            self.decorated = self.decorated or self.first
        else:
            if self.words[0] == "def" or self.words == ["async", "def"]:
                self.waiting = Lines(self.decorated or self.first, line)
            self.decorated = 0
        self.words, self.first = [], 0

    def _end_waiting(self) -> None:
        """A function on one line has no block."""
        if self.waiting is not None:
            self.found.functions.append(Function(self.waiting, self.waiting.last))
            self.waiting = None

    def _close(self) -> None:
        self._end_waiting()
        head = self.open.pop()
        if head is not None:
            self.found.functions.append(Function(head, self.last))
