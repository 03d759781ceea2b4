"""Edited text back into a file's bytes: encoding, byte order mark, line ends and all that is untouched stay."""

from __future__ import annotations

import io
import os
import re
import tempfile
import tokenize

from ampcheck.fixes.case import Cannot
from ampcheck.fixes.cells import with_sources
from ampcheck.fixes.draft import Draft
from ampcheck.source import NOTEBOOK

__all__ = ["replace_file", "written"]

_ENDS = re.compile(r"\r\n|\r|\n")


def written(draft: Draft, data: bytes) -> bytes:
    """The bytes of a file with its draft's changes.  `data` is what the draft was made from."""
    if draft.path.endswith(NOTEBOOK):
        return with_sources(data, lambda cell, source: _changed(draft, source, cell))
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return _changed(draft, data.decode(encoding), 0).encode(encoding)  # "utf-8-sig" takes and gives the mark


def _changed(draft: Draft, text: str, cell: int) -> str:
    """A text with the draft's changes: lines that stay keep their own ends, new ones get the usual end."""
    before = [line for line in draft.before if line.cell == cell]
    after = [line for line in draft.lines if line.cell == cell]
    if before == after:
        return text
    old = dict(zip((line.origin for line in before), _split(text), strict=True))
    was = {line.origin: line.text for line in draft.before}
    ends = [end for _, end in old.values() if end]
    usual = max(set(ends), key=ends.count) if ends else "\n"
    parts: list[str] = []
    for line in after:
        raw, end = old.get(line.origin, (line.text, usual))
        if line.text != was.get(line.origin, line.text):
            if raw.replace("\f", "") != was[line.origin]:
                raise Cannot("the line is not plain Python: IPython rewrites it")
            raw = line.text
        parts += [raw, end or usual]
    return "".join(parts[:-1])  # the last line has no end: behind a final one there is an empty line


def _split(text: str) -> list[tuple[str, str]]:
    """The lines of a text, each with its end."""
    found: list[tuple[str, str]] = []
    at = 0
    for match in _ENDS.finditer(text):
        found.append((text[at : match.start()], match.group()))
        at = match.end()
    return [*found, (text[at:], "")]


def replace_file(path: str, data: bytes) -> None:
    """Put new contents in a file's place, all at once; its mode stays, and a link stays a link."""
    place = os.path.realpath(path)
    handle, temporary = tempfile.mkstemp(prefix=".ampcheck-", dir=os.path.dirname(place))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, os.stat(place).st_mode & 0o7777)
        os.replace(temporary, place)
    except BaseException:
        os.unlink(temporary)
        raise
