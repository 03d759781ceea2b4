"""From bytes on disk to text: encodings, byte order marks, line ends, and the gate.

A file that does not hold a single token of a training step never reaches a parser.
"""

from __future__ import annotations

import ast
import io
import os
import stat
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType

from ampcheck.events import Site
from ampcheck.nesting import TOO_DEEP, deepest
from ampcheck.notebook import Cells, NotANotebook, Omission, read_notebook

__all__ = [
    "Source",
    "Unreadable",
    "decode",
    "exists",
    "hold_unsaved",
    "is_file",
    "passes_gate",
    "read_bytes",
    "unsaved",
]

# Five substring tests are four times cheaper than one regular expression with the same alternatives.
TOKENS = (
    *(b"backward", b"GradScaler", b"zero_grad", b"clip_grad", b".amp"),
    *(b"NativeScaler", b"TrainingArguments", b"zero_optimization", b"compute_loss", b"TrainerCallback"),
)
NOTEBOOK = ".ipynb"
LARGEST = 8 * 2**20
LARGEST_NOTEBOOK = 64 * 2**20  # pictures in outputs


class Unreadable(Exception):
    """A file that cannot be analysed; the message says why and what to do, `line` where (from 1)."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text with its lines, without their ends; `tree` is the standard library's parse.

    It is None where only libcst may be able to read the file; then `refusal` says why this Python cannot.
    Of a notebook, `cells` leads from the lines back to cells, and `omitted` are the cells that are not in the text.
    """

    path: str
    text: str
    tree: ast.Module | None
    refusal: Unreadable | None = None
    cells: Cells | None = None
    omitted: tuple[Omission, ...] = ()
    lines: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Only CR, LF and CRLF end a line, as for Python itself.
        object.__setattr__(self, "lines", tuple(self.text.split("\n")))

    def where(self, line: int) -> str:
        """A line as messages name it: ``line 3``; in a notebook ``cell 2, line 3``."""
        if self.cells is None:
            return f"line {line}"
        at = self.cells.place(Site(self.path, line, 1, line, 1))
        return f"cell {at.cell}, line {at.line}"


_UNSAVED: ContextVar[Mapping[str, bytes]] = ContextVar("unsaved", default=MappingProxyType({}))


@contextmanager
def unsaved(contents: Mapping[str, bytes]) -> Iterator[None]:
    """Have `read_bytes` give these contents, by absolute path, instead of what is on disk, if anything is.

    For text that comes from standard input or stands in an editor.
    """
    before = _UNSAVED.get()
    hold_unsaved(contents)
    try:
        yield
    finally:
        _UNSAVED.set(before)


def hold_unsaved(contents: Mapping[str, bytes]) -> None:
    """The same for the rest of the context that this runs in, such as a command."""
    _UNSAVED.set({**_UNSAVED.get(), **contents})


def exists(path: str) -> bool:
    """Whether there is a file or folder, unsaved text included."""
    return os.path.abspath(path) in _UNSAVED.get() or os.path.exists(path)


def is_file(path: str) -> bool:
    """Whether there is something to read: on disk, or in what stands for it."""
    contents = _UNSAVED.get()
    return (bool(contents) and os.path.abspath(path) in contents) or os.path.isfile(path)


def stamp(path: str) -> tuple[int, int] | None:
    """What changes whenever a file on disk does: its time (in ns) and its size; None for text that is not saved."""
    if os.path.abspath(path) in _UNSAVED.get():
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def read_bytes(path: str) -> bytes:
    """A regular file's bytes; raises Unreadable for anything else (a FIFO would hang a naive reader)."""
    contents = _UNSAVED.get()
    if contents and (held := contents.get(os.path.abspath(path))) is not None:
        _refuse_larger(path, len(held))
        return held
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("not a regular file")
        _refuse_larger(path, status.st_size)
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from None


def _refuse_larger(path: str, size: int) -> None:
    largest = LARGEST_NOTEBOOK if path.endswith(NOTEBOOK) else LARGEST
    if size > largest:
        raise Unreadable(f"larger than {largest // 2**20} MiB: not analysed; exclude it or split it")


def passes_gate(data: bytes) -> bool:
    """Whether a file can hold a training step at all; one with null bytes is for the decoder to refuse."""
    return b"\0" in data or any(token in data for token in TOKENS)


def decode(path: str, data: bytes) -> Source:
    """The text and its parse; of a notebook, the module that its code cells make.

    Raises Unreadable with a line number where the file is neither decodable nor Python.  Where this
    interpreter's own parser refuses, the file may still use newer syntax: `tree` is None and libcst is to decide.
    """
    if path.endswith(NOTEBOOK):
        return _notebook(path, data)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise _undecodable(data, error) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\f", "")
    try:
        return Source(path, text, ast.parse(text))
    except SyntaxError as error:
        line = error.lineno or 1
        refusal = Unreadable(f"not Python: line {line}: {error.msg}", line)
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply to be parsed") from None
    if deepest(text) > TOO_DEEP:
        raise refusal
    return Source(path, text, None, refusal)


def _undecodable(data: bytes, error: Exception) -> Unreadable:
    """Where the first byte is that the file's encoding does not have; Python tells it by its offset, if at all."""
    if isinstance(error, SyntaxError) and b"coding" not in b"".join(data.splitlines()[:2]):
        try:
            data.decode()
        except UnicodeDecodeError as wrong:
            error = wrong
    if not isinstance(error, UnicodeDecodeError):
        return Unreadable(f"cannot be decoded: {error}; save it as UTF-8")
    line = data.count(b"\n", 0, error.start) + 1
    byte = f"the byte 0x{data[error.start]:02x} of line {line} is not {error.encoding}"
    return Unreadable(f"cannot be decoded: {byte}; save it as UTF-8, or declare its encoding in line 1", line)


def _notebook(path: str, data: bytes) -> Source:
    try:
        notebook = read_notebook(data, matters=lambda text: passes_gate(text.encode()))
    except NotANotebook as error:
        raise Unreadable(str(error)) from None
    if len(notebook.text) > LARGEST:
        raise Unreadable(
            f"its code is larger than {LARGEST // 2**20} MiB: not analysed; exclude it or split it"
        )
    tree, refusal = None, None
    try:
        tree = ast.parse(notebook.text)
    except SyntaxError as error:  # newer Python, as in `decode`: its cells were read by libcst
        line = error.lineno or 1
        at = notebook.cells.place(Site(path, line, 1, line, 1))
        refusal = Unreadable(f"not Python: cell {at.cell}, line {at.line}: {error.msg}", line)
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply to be parsed") from None
    return Source(path, notebook.text, tree, refusal, notebook.cells, notebook.omitted)
