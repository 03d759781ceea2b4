"""What the table of seeded faults may hold besides "found and confirmed", with the reason."""

from __future__ import annotations

__all__ = ["ACCEPTED", "MISSED"]

_MODEL = frozenset({"confirmed (library model)"})

ACCEPTED: dict[str, frozenset[str]] = {
    "AMP209": _MODEL,
    "AMP314": _MODEL,
    "AMP407": _MODEL,
    # Built-in operations give the same gradients: there is nothing to measure.
    "AMP603": frozenset({"inconclusive"}),
}
"""Outcomes of rules that the replay cannot confirm on tensors."""

MISSED: dict[tuple[str, str], str] = {
    ("AMP305", "micro_batches"): "the division was all that declared its window",
    ("AMP313", "micro_batches"): "possible only: its window ends with each call",
    ("AMP313", "nested"): "possible only: its windows end with an inner loop",
    ("AMP314", "nested"): "the engine's steps are counted by a boundary test, not by an inner loop",
    ("AMP316", "micro_batches"): "possible only: its window ends with each call",
    ("AMP605", "amp_option"): "possible only: autocast is an option",
    ("AMP607", "amp_option"): "possible only: autocast is an option",
}
"""Faults that are there and not found, or not for certain."""
