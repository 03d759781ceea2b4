"""Ratios are named by what they are made of."""

from __future__ import annotations

import math

import pytest

from ampcheck.replay.factors import Known, bound_name, factor_name, number

PLAIN = Known(scale=8.0, window=3)


@pytest.mark.parametrize(
    ("ratio", "name"),
    [
        (8.0, "S"),
        (1 / 8, "1/S"),
        (64.0, "S²"),
        (3.0, "K"),
        (1 / 3, "1/K"),
        (24.0, "S·K"),
        (8 / 3, "S/K"),
        (math.sqrt(2), "√2"),
        (1.0, ""),
        (1.234, ""),
        (0.0, ""),
        (math.inf, ""),
        (2.0, ""),
    ],
)
def test_names(ratio, name):
    assert factor_name(ratio, PLAIN) == name


def test_what_plays_no_part_names_nothing():
    assert factor_name(2.0, Known(8.0, 3, ranks=True)) == "W"
    assert factor_name(0.5, Known(8.0, 3, ranks=True)) == "1/W"
    assert factor_name(2.0, Known(8.0, 3, moving=True)) == "2"
    assert factor_name(3.0, Known(8.0, 1)) == ""
    assert factor_name(8.0, Known(8.0, 3, scalers=0)) == ""
    assert factor_name(0.25, Known(8.0, 1, scalers=2)) == "S₁/S₂"
    assert factor_name(8.0, Known(8.0, 3, nameless=True)) == ""


def test_bounds():
    assert [bound_name(f) for f in ("1/S", "K", "√2", "")] == ["M/S", "K·M", "√2·M", ""]


def test_numbers_are_written_as_people_write_them():
    assert [number(x) for x in (2.0, 0.125, 13.6666667, 1.41421356, 48.0, math.inf)] == [
        "2.0",
        "0.125",
        "13.667",
        "1.4142",
        "48.0",
        "inf",
    ]
