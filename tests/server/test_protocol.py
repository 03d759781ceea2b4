"""The server as a client sees it: pytest-lsp's, over standard input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from ampcheck.check import check_paths
from tests.server.edits import HELPERS, TRAIN, texts

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")
from tests.server.client import Editor, editor

EARLY = TRAIN.replace("            scaler.unscale_(optimizer)\n", "")
CLIPPED = EARLY.replace("clip(model, LIMIT)", "torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text(HELPERS)
    return tmp_path


def served(folder: Path, do: Callable[[Editor], Awaitable[None]], options: object = None) -> None:
    """Do something in an editor on a folder."""

    async def go() -> None:
        async with editor(folder, options) as one:
            await asyncio.wait_for(do(one), 120)

    asyncio.run(go())


def test_diagnostics_on_open_change_and_close(folder: Path) -> None:
    async def do(one: Editor) -> None:
        assert await one.open("train.py", CLIPPED) == ["AMP604:22", "AMP101:27"]
        one.edit("train.py", "\n" + CLIPPED)
        assert await one.shown("train.py") == ["AMP604:23", "AMP101:28"]
        one.edit("train.py", TRAIN)
        assert await one.shown("train.py") == ["AMP604:22"]
        one.client.text_document_did_close(
            lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(one.uri("train.py")))
        )
        assert await one.next(one.uri("train.py")) == []

    served(folder, do)


def test_a_diagnostic_says_what_where_and_why(folder: Path) -> None:
    async def do(one: Editor) -> None:
        text = CLIPPED.replace("model.parameters(), LIMIT", "model.parameters(), '\U0001f600'")
        await one.open("train.py", "")
        one.edit("train.py", text)
        (found,) = [d for d in await one.diagnostics("train.py") if d.code == "AMP101"]
        # The end is counted in UTF-16 units: the picture takes two.
        assert str(found.range) == "26:12-26:68"
        assert found.severity == lsp.DiagnosticSeverity.Error
        assert found.message.startswith(
            "clip-before-unscale: gradients of `optimizer` are clipped while they"
        )
        assert [(r.location.range.start.line + 1, r.message) for r in found.related_information or ()] == [
            (25, "gradients × S / K"),
            (25, "gradients × S / K, 2 micro-batches"),
            (25, "gradients × S / K, 3 micro-batches"),
            (27, "clipped at the threshold / S"),
            (28, "unscaled here, after the clip"),
        ]

    served(folder, do)


def test_a_broken_text_keeps_its_last_good_diagnostics(folder: Path) -> None:
    async def do(one: Editor) -> None:
        await one.open("train.py", CLIPPED)
        one.edit("train.py", "\n\nx = (\n" + CLIPPED)
        assert await one.shown("train.py") == ["AMP900:3", "AMP604:25", "AMP101:30"]
        one.edit("train.py", CLIPPED)
        assert await one.shown("train.py") == ["AMP604:22", "AMP101:27"]

    served(folder, do)


def test_unsaved_text_counts_for_the_files_that_import_it_and_a_save_for_what_is_closed(folder: Path) -> None:
    async def do(one: Editor) -> None:
        assert await one.open("train.py", EARLY) == ["AMP604:22", "AMP101:27"]
        nothing = HELPERS.replace("    return torch.nn.utils.clip_grad_norm_(", "    return print(")
        assert await one.open("helpers.py", nothing) == []
        one.edit("helpers.py", HELPERS)
        assert await one.shown("helpers.py") == ["AMP101:5"]
        one.edit("helpers.py", nothing)
        assert await one.shown("helpers.py") == []

    served(folder, do)


def test_a_hover_tells_what_the_gradients_carry(folder: Path) -> None:
    async def do(one: Editor) -> None:
        await one.open("train.py", TRAIN)
        text = await one.hover("train.py", 25)
        assert "- micro-batch 1 of 3: no gradients → gradients × S / K, 1 micro-batch" in text
        assert (
            "- micro-batch 3 of 3: gradients × S / K, 2 micro-batches → gradients × S / K, 3 micro-batches"
            in text
        )
        assert "window of K = `accum`, run as 3" in text
        assert "gradients × S / K, 3 micro-batches → gradients / K, 3 micro-batches (unscaled here)" in (
            await one.hover("train.py", 27)
        )
        assert await one.hover("train.py", 12) == ""

    served(folder, do)


def test_inlay_hints_are_off_until_they_are_asked_for(folder: Path) -> None:
    async def do(one: Editor) -> None:
        await one.open("train.py", TRAIN)
        assert await one.hints("train.py") == {}
        settings = {"ampcheck": {"inlayHints": True}}
        one.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(settings))
        found = await one.hints("train.py")
        assert found[25] == "gradients × S / K, 1 to 3 micro-batches"
        assert found[27] == "unscaled here"

    served(folder, do)


def test_settings_are_taken_from_the_client_and_read_again(folder: Path) -> None:
    async def do(one: Editor) -> None:
        assert await one.open("train.py", CLIPPED) == ["AMP101:27"]
        one.client.set_configuration({"ignore": ["AMP101"]}, section="ampcheck")
        one.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(None))
        assert await one.shown("train.py") == ["AMP604:22"]
        settings = {"ampcheck": {"select": ["AMP999"], "inlayhints": True}}
        one.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(settings))
        await one.shown("train.py")
        assert [m.message.split(";")[0] for m in one.client.messages] == [
            "ampcheck: settings: select: unknown rule 'AMP999': did you mean AMP903 or AMP902 or AMP901?",
            "ampcheck: settings: inlayhints: no such setting",
        ]

    served(folder, do, {"select": ["AMP1"]})


def edited(text: str, action: lsp.CodeAction | lsp.Command) -> str:
    """A text (whose lines are plain ASCII) with an action's edits."""
    assert isinstance(action, lsp.CodeAction)
    assert action.edit is not None
    lines = text.split("\n")
    ((edits),) = (action.edit.changes or {}).values()
    for edit in sorted(edits, key=lambda e: e.range.start, reverse=True):
        first, last = edit.range.start, edit.range.end
        around = lines[first.line][: first.character], lines[last.line][last.character :]
        lines[first.line : last.line + 1] = (around[0] + edit.new_text + around[1]).split("\n")
    return "\n".join(lines)


def test_what_can_be_done_about_a_finding(folder: Path) -> None:
    async def do(one: Editor) -> None:
        await one.open("train.py", CLIPPED)
        document = lsp.TextDocumentIdentifier(one.uri("train.py"))
        place = lsp.Range(lsp.Position(26, 20), lsp.Position(26, 20))
        asked = lsp.CodeActionParams(document, place, lsp.CodeActionContext([]))
        found = await one.client.text_document_code_action_async(asked)
        # lsprotocol takes an action with a command for a command; only its title is read here.
        assert [action.title for action in found or ()] == [
            "Fix AMP101: call scaler.unscale_(optimizer) before the clip",
            "Ignore AMP101 clip-before-unscale here",
            "Explain AMP101 clip-before-unscale",
        ]
        fix, suppress = (found or [])[:2]
        assert (
            edited(one.texts["train.py"], suppress)
            .split("\n")[26]
            .endswith("LIMIT)  # ampcheck: ignore[clip-before-unscale]")
        )
        assert edited(one.texts["train.py"], fix).split("\n")[26:28] == [
            "            scaler.unscale_(optimizer)",
            "            torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)",
        ]
        page = await one.client.workspace_execute_command_async(
            lsp.ExecuteCommandParams("ampcheck.explain", arguments=["AMP101"])
        )
        assert "clip-before-unscale" in str(page)
        (shown,) = one.client.shown_documents
        assert shown.uri.endswith("/AMP101.md")

    served(folder, do)


def test_notebooks_are_judged_by_cell(folder: Path) -> None:
    async def do(one: Editor) -> None:
        parts = CLIPPED.split("\n\n\n")
        contents = {f"cell{n}": part for n, part in enumerate(parts, start=1)}
        uris = {name: f"vscode-notebook-cell:{folder}/train.ipynb#{name}" for name in contents}
        cells = [lsp.NotebookCell(lsp.NotebookCellKind.Code, uri) for uri in uris.values()]
        book = lsp.NotebookDocument((folder / "train.ipynb").as_uri(), "jupyter-notebook", 1, cells)
        items = [lsp.TextDocumentItem(uris[name], "python", 1, part) for name, part in contents.items()]
        one.client.notebook_document_did_open(lsp.DidOpenNotebookDocumentParams(book, items))
        last = uris["cell4"]
        shown = await one.next(last)
        assert [(d.code, d.range.start.line) for d in shown] == [("AMP604", 2), ("AMP101", 7)]
        # A line more in the last cell; the change is one of that cell's text.
        change = lsp.TextDocumentContentChangePartial(lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)), "\n")
        content = lsp.NotebookDocumentCellContentChanges(
            lsp.VersionedTextDocumentIdentifier(2, last), [change]
        )
        one.client.notebook_document_did_change(
            lsp.DidChangeNotebookDocumentParams(
                lsp.VersionedNotebookDocumentIdentifier(2, book.uri),
                lsp.NotebookDocumentChangeEvent(
                    cells=lsp.NotebookDocumentCellChanges(text_content=[content])
                ),
            )
        )
        shown = await one.next(last)
        assert [(d.code, d.range.start.line) for d in shown] == [("AMP604", 3), ("AMP101", 8)]
        hover = await one.client.text_document_hover_async(
            lsp.HoverParams(lsp.TextDocumentIdentifier(last), lsp.Position(6, 9))
        )
        assert hover is not None
        assert "no gradients → gradients × S / K, 1 micro-batch" in str(hover.contents)

    served(folder, do)


def test_after_a_thousand_edits_it_shows_what_a_check_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst, most of which is never checked: what comes last counts."""

    async def do(one: Editor) -> None:
        await one.open("train.py", TRAIN)
        for text in texts(TRAIN, seed=5, count=1000):
            one.edit("train.py", text)
        one.edit("train.py", CLIPPED + "# \U0001f600\u2028\f end")
        shown = await one.diagnostics("train.py")
        (folder / "train.py").write_text(one.texts["train.py"], "utf-8")
        monkeypatch.chdir(folder)
        expected = check_paths(["train.py"]).findings
        assert [(d.code, d.range.start.line + 1, d.range.start.character + 1) for d in shown] == [
            (f.code, f.site.line, f.site.column) for f in expected
        ]

    served(folder, do)


def test_a_long_check_is_shown_as_work_in_progress(folder: Path) -> None:
    options = "".join(
        f"        if args.flag{n}:\n            loss = loss * args.weight{n}\n" for n in range(20)
    )
    loop = CLIPPED.partition("def train")[2].replace(
        "        scaler.scale(loss)", f"{options}        scaler.scale(loss)"
    )
    slow = CLIPPED + "".join(f"\n\ndef train{n}{loop}" for n in range(8))

    async def do(one: Editor) -> None:
        await one.open("train.py", slow)
        kinds = [type(p).__name__ for some in one.client.progress_reports.values() for p in some]
        assert kinds == ["WorkDoneProgressBegin", "WorkDoneProgressEnd"]

    served(folder, do)
