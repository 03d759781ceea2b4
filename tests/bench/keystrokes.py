"""How long after a keystroke the diagnostics come: the real server, over its protocol, on a file of a thousand lines.

    python tests/bench/keystrokes.py [FILE] [--keystrokes N] [--seed N]

Without a FILE it is `training_script.py` with copies of its classes and small functions, to a thousand lines.
Statements are typed at random places, letter by letter, and taken back; each letter waits for the diagnostics of the
last one.  The time is that from sending the change to having the diagnostics, the server's own waiting included; `cpu`
is what the server computed for it.  `loop` are keystrokes inside the function that holds the training step, `broken`
those that leave a text that is no Python.  What the machine needs for a fixed piece of work is shown beside: on a busy
one everything takes longer.  It is no test.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from lsprotocol import types as lsp
from pytest_lsp import client_capabilities, make_test_lsp_client

HERE = Path(__file__).resolve().parent
LINES = 1000
TYPED = ("total = total + 1", "print(norm)", "# look here", "value = f(a, b)", "x = [1, 2]", "if ready: pass")
PUBLISHED = "textDocument/publishDiagnostics"

Times = dict[str, list[tuple[float, float]]]


def long_script() -> str:
    """The training script with copies of what is no part of its step, under other names."""
    text = (HERE / "training_script.py").read_text("utf-8")
    lines = text.split("\n")
    definitions = [n for n in ast.parse(text).body if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    spare = [n for n in definitions if n.name not in ("train", "main", "save", "load", "parse_args")]
    copies: list[str] = []
    number = 0
    while len(lines) + len(copies) < LINES:
        node = spare[number % len(spare)]
        number += 1
        for line in lines[node.lineno - 1 : node.end_lineno]:
            for other in spare:
                line = line.replace(other.name, f"{other.name}{number // len(spare) + 2}")
            copies.append(line)
        copies += ["", ""]
    first = next(n for n in definitions if n.name == "train")
    return "\n".join([*lines[: first.lineno - 1], *copies, *lines[first.lineno - 1 :]])


def loop_lines(text: str) -> set[int]:
    """The lines (from 0) of the top-level functions and classes with a backward in them."""
    found: set[int] = set()
    for node in ast.parse(text).body:
        if "backward" in ast.unparse(node):
            found |= set(range(node.lineno - 1, node.end_lineno or node.lineno))
    return found


def calibration() -> float:
    """Milliseconds for a fixed piece of work."""
    begun = time.perf_counter()
    sum(i * i for i in range(300_000))
    return (time.perf_counter() - begun) * 1000


def computed(process: int) -> float:
    """The milliseconds that all threads of a process have computed; 0 where the system does not say."""
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def parses(lines: list[str], number: int, added: str) -> bool:
    """Whether the text is Python with something added to a line."""
    try:
        ast.parse("\n".join([*lines[:number], lines[number] + added, *lines[number + 1 :]]))
    except SyntaxError:
        return False
    return True


async def measure(text: str, count: int, seed: int) -> tuple[Times, list[float]]:
    """The times in milliseconds, by kind of keystroke, and those of the fixed piece of work."""
    choose = random.Random(seed)
    times: Times = defaultdict(list)
    fixed: list[float] = []
    loop, lines = loop_lines(text), text.split("\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(text, "utf-8")
        Path(folder, "pyproject.toml").touch()
        client = make_test_lsp_client()
        await client.start_io(sys.executable, "-m", "ampcheck", "server")
        server = client._server
        assert server is not None
        await client.initialize_session(
            lsp.InitializeParams(client_capabilities("neovim"), root_uri=Path(folder).as_uri())
        )
        uri, version = path.as_uri(), 1
        document = lsp.TextDocumentItem(uri, "python", version, text)
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
        await client.wait_for_notification(PUBLISHED)

        async def change(start: lsp.Position, end: lsp.Position, new: str) -> tuple[float, float]:
            nonlocal version
            version += 1
            edit = lsp.TextDocumentContentChangePartial(lsp.Range(start, end), new)
            begun, before = time.perf_counter(), computed(server.pid)
            client.text_document_did_change(
                lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(version, uri), [edit])
            )
            while (await client.wait_for_notification(PUBLISHED)).version != version:
                pass
            return (time.perf_counter() - begun) * 1000, computed(server.pid) - before

        while len(fixed) < count:
            number = choose.choice([n for n, line in enumerate(lines) if line.strip()])
            line = lines[number]
            typed = line[: len(line) - len(line.lstrip())] + choose.choice(TYPED)
            indent = len(typed) - len(typed.lstrip())
            begin = lsp.Position(number, len(line))
            for index in range(indent, len(typed) + 1):
                where = begin if index == indent else lsp.Position(number + 1, index - 1)
                letters = f"\n{typed[:indent]}" if index == indent else typed[index - 1]
                taken = await change(where, where, letters)
                kind = "loop" if number in loop else "elsewhere"
                times[kind if parses(lines, number, f"\n{typed[:index]}") else "broken"].append(taken)
                fixed.append(calibration())
            await change(begin, lsp.Position(number + 1, len(typed)), "")
        await client.shutdown_session()
        await client.stop()
    return times, fixed


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser()
    options.add_argument("file", nargs="?")
    options.add_argument("--keystrokes", type=int, default=300)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    text = Path(asked.file).read_text("utf-8") if asked.file else long_script()
    times, fixed = asyncio.run(measure(text, asked.keystrokes, asked.seed))
    print(f"{text.count(chr(10))} lines; the fixed piece of work: {statistics.median(fixed):.0f} ms (median)")
    times["all"] = [one for some in times.values() for one in some]
    for kind, some in times.items():
        shown = [f"{kind:9} {len(some):4} keystrokes"]
        for name, values in zip(("wall", "cpu"), map(sorted, zip(*some, strict=True)), strict=True):
            p50, p95 = values[len(values) // 2], values[int(len(values) * 0.95)]
            shown.append(f"{name}: median {p50:4.0f} ms, p95 {p95:4.0f} ms, most {values[-1]:4.0f} ms")
        print("   ".join(shown))


if __name__ == "__main__":
    main()
