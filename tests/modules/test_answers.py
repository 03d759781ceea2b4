"""Answers to questions that lead in circles: complete, and the same in whatever order they are asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcheck.answers import Answers

Graph = dict[str, str]


def reached(answers: Answers[str, frozenset[str]], graph: Graph, start: str) -> frozenset[str]:
    """All letters that can be reached from one, itself included: what a union over a circle must come to."""

    def answer() -> frozenset[str]:
        found = frozenset(start)
        for following in graph[start]:
            found |= reached(answers, graph, following)
        return found

    return answers.get(start, answer) or frozenset()


def closure(graph: Graph, start: str) -> frozenset[str]:
    found: set[str] = set()
    pending = [start]
    while pending:
        letter = pending.pop()
        if letter not in found:
            found.add(letter)
            pending += graph[letter]
    return frozenset(found)


def test_a_question_is_answered_once() -> None:
    asked: list[str] = []

    def answer() -> str:
        asked.append("?")
        return "!"

    answers: Answers[str, str] = Answers()
    assert [answers.get("q", answer), answers.get("q", answer)] == ["!", "!"]
    assert asked == ["?"]


def test_nothing_is_an_answer_too() -> None:
    answers: Answers[str, str] = Answers()
    assert answers.get("q", lambda: None) is None
    assert answers.get("q", lambda: "late") is None


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_two_modules_in_a_circle(order: str) -> None:
    answers: Answers[str, frozenset[str]] = Answers()
    for letter in order:
        assert reached(answers, {"a": "b", "b": "a"}, letter) == frozenset("ab")


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_three_modules_in_a_circle(order: str) -> None:
    answers: Answers[str, frozenset[str]] = Answers()
    for letter in order:
        assert reached(answers, {"a": "b", "b": "c", "c": "a"}, letter) == frozenset("abc")


def test_what_was_answered_inside_a_circle_is_asked_again_once_the_circle_is_closed() -> None:
    """r asks a, a asks b, b asks a; when r then asks b itself, a's answer is known and b's is to have it."""
    seen: list[frozenset[str]] = []
    answers: Answers[str, frozenset[str]] = Answers()
    graph = {"a": "bc", "b": "a", "c": ""}

    def root() -> frozenset[str]:
        seen.extend(reached(answers, graph, letter) for letter in "ab")
        return frozenset()

    answers.get("r", root)
    assert seen == [frozenset("abc"), frozenset("abc")]


def test_a_circle_inside_a_circle_waits_for_the_outer_one() -> None:
    """f - c - e - b - c is closed before f is, but e needs f: what b says without c must not last."""
    answers: Answers[str, frozenset[str]] = Answers()
    graph = {"b": "c", "c": "e", "d": "b", "e": "bf", "f": "cd"}
    assert [reached(answers, graph, letter) for letter in "fd"] == [frozenset("bcdef")] * 2


def test_an_answer_that_fails_leaves_nothing_behind() -> None:
    answers: Answers[str, str] = Answers()

    def fails() -> str:
        answers.get("inner", lambda: answers.get("outer", lambda: "never"))
        raise RecursionError

    with pytest.raises(RecursionError):
        answers.get("outer", fails)
    assert answers.get("inner", lambda: "complete") == "complete"
    assert answers.get("outer", lambda: "complete") == "complete"


@given(
    st.fixed_dictionaries({letter: st.text("abcdef", max_size=3) for letter in "abcdef"}),
    st.permutations("abcdef"),
)
def test_any_web_of_modules_is_answered_completely(graph: Graph, order: list[str]) -> None:
    answers: Answers[str, frozenset[str]] = Answers()
    for letter in order:
        assert reached(answers, graph, letter) == closure(graph, letter)


@given(st.fixed_dictionaries({letter: st.text("abcdef", max_size=3) for letter in "abcdef"}))
def test_a_question_above_them_all_hears_complete_answers(graph: Graph) -> None:
    answers: Answers[str, frozenset[str]] = Answers()
    heard: dict[str, frozenset[str]] = {}

    def above() -> frozenset[str]:
        heard.update((letter, reached(answers, graph, letter)) for letter in "abcdef")
        return frozenset()

    answers.get("r", above)
    assert heard == {letter: closure(graph, letter) for letter in "abcdef"}
