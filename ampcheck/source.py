"""From bytes on disk to text: encodings, byte order marks, line ends, and the gate.

A file that does not hold a single token of a training step never reaches a parser.
"""

from __future__ import annotations

import ast
import io
import os
import stat
import tokenize
from dataclasses import dataclass

__all__ = ["Source", "Unreadable", "decode", "passes_gate", "read_bytes"]

# Five substring tests are four times cheaper than one regular expression with the same alternatives.
TOKENS = (
    *(b"backward", b"GradScaler", b"zero_grad", b"clip_grad", b".amp"),
    *(b"TrainingArguments", b"zero_optimization"),
)
LARGEST = 8 * 2**20


class Unreadable(Exception):
    """A file that cannot be analysed; the message says why and what to do, `line` where (from 1)."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text with its lines; `tree` is the standard library's parse.

    It is None where only libcst may be able to read the file; then `refusal` says why this Python cannot.
    """

    path: str
    text: str
    tree: ast.Module | None
    refusal: Unreadable | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines without their ends (only CR, LF and CRLF end a line, as for Python itself)."""
        return tuple(self.text.split("\n"))


def read_bytes(path: str) -> bytes:
    """A regular file's bytes; raises Unreadable for anything else (a FIFO would hang a naive reader)."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("not a regular file")
        if status.st_size > LARGEST:
            raise Unreadable(f"larger than {LARGEST // 2**20} MiB: not analysed; exclude it or split it")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from None


def passes_gate(data: bytes) -> bool:
    """Whether a file can hold a training step at all; one with null bytes is for the decoder to refuse."""
    return b"\0" in data or any(token in data for token in TOKENS)


def decode(path: str, data: bytes) -> Source:
    """The text and its parse.

    Raises Unreadable with a line number where the file is neither decodable nor Python.  Where this
    interpreter's own parser refuses, the file may still use newer syntax: `tree` is None and libcst is to decide.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise Unreadable(f"cannot be decoded: {error}; save it as UTF-8") from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\f", "")
    try:
        return Source(path, text, ast.parse(text))
    except SyntaxError as error:
        line = error.lineno or 1
        refusal = Unreadable(f"not Python: line {line}: {error.msg}", line)
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply to be parsed") from None
    if _deepest(text) > 60:
        raise refusal
    return Source(path, text, None, refusal)


def _deepest(text: str) -> int:
    """The deepest nesting of brackets: libcst's parser crashes the process on thousands of them."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest
