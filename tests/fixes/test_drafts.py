"""Drafts: edits are as small as they can be, and several fixes of one file go together if they keep apart."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from ampcheck.events import Site
from ampcheck.finding import Edit
from ampcheck.fixes.draft import Draft, together
from ampcheck.fixes.syntax import Module
from ampcheck.source import Source
from tests.fixes.loops import edited


def draft_of(text: str) -> Draft:
    module = Module.of(Source("m.py", text, ast.parse("")))
    assert module is not None
    return Draft.of(module)


LINES = "one\ntwo\nthree\nfour\n"


def test_an_insertion_is_a_place_between_lines() -> None:
    assert draft_of(LINES).insert(["new"], before=3).edits() == (Edit(Site("m.py", 3, 1, 3, 1), "new\n"),)


def test_a_change_within_a_line_is_that_part_of_it() -> None:
    assert draft_of(LINES).replace(3, "thorny tree").edits() == (
        Edit(Site("m.py", 3, 3, 3, 4), "orny t"),
    ) or (edited(LINES, draft_of(LINES).replace(3, "thorny tree").edits()) == "one\ntwo\nthorny tree\nfour\n")


def test_a_line_at_the_end_of_a_file_without_one() -> None:
    draft = draft_of("one\ntwo").insert(["new"], after=2)
    assert edited("one\ntwo", draft.edits()) == "one\ntwo\nnew"


def test_lines_behind_one_keep_their_order() -> None:
    draft = draft_of(LINES).insert(["a"], after=2).insert(["b"], after=2)
    assert draft.text == "one\ntwo\na\nb\nthree\nfour\n"


def test_what_moves_is_still_known() -> None:
    draft = draft_of(LINES).move(1, 1, after=3)
    assert draft.text == "two\nthree\none\nfour\n"
    assert [draft.origin(n) for n in (1, 2, 3, 4)] == [2, 3, 1, 4]


OPERATIONS = st.lists(st.tuples(st.sampled_from("idrm"), st.integers(1, 6), st.integers(1, 6)), max_size=4)


def operated(draft: Draft, operations: list[tuple[str, int, int]]) -> Draft:
    there = {line.origin for line in draft.lines}
    for kind, line, other in operations:
        there = {x.origin for x in draft.lines}
        if line not in there or other not in there:
            continue
        match kind:
            case "i":
                draft = draft.insert(["new", "lines"], before=line)
            case "d" if len(there) > 3:
                draft = draft.delete(line, line)
            case "r":
                draft = draft.replace(line, "other text")
            case "m" if line != other:
                draft = draft.move(line, line, before=other)
    return draft


@given(st.lists(st.sampled_from(["", "a", "b", "a b"]), min_size=6, max_size=9), OPERATIONS)
def test_the_edits_make_the_draft(lines: list[str], operations: list[tuple[str, int, int]]) -> None:
    text = "\n".join(lines)
    draft = operated(draft_of(text), operations)
    assert edited(text, draft.edits()) == draft.text


def test_drafts_apart_go_together() -> None:
    draft = draft_of(LINES)
    both = together([draft.insert(["a"], before=1), draft.replace(4, "4")])
    assert both is not None
    assert both.text == "a\none\ntwo\nthree\n4\n"


def test_drafts_that_meet_do_not() -> None:
    draft = draft_of(LINES)
    assert together([draft.replace(2, "2"), draft.insert(["a"], after=2)]) is None
    assert together([draft.delete(2, 3), draft.replace(3, "3")]) is None
