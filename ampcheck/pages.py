"""The rules' documentation pages, made from their docstrings: `python -m ampcheck.pages` writes `docs/rules/`.

`ampcheck explain` shows the same page, so that a rule is documented in one place: where it is written.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

from ampcheck import registry
from ampcheck.rule import Rule

__all__ = ["HEADINGS", "OBSERVED", "index", "page", "pages", "stale", "summary", "write"]

HEADINGS = (
    "What it does",
    "Why is this bad",
    "Example",
    "Use instead",
    "Known problems",
    "References",
)
"""The sections of a docstring, in this order; the first two are not optional."""

OBSERVED = {
    "exception": "whether torch raises",
    "warning": "whether torch warns",
    "steps": "how often each optimizer really steps",
    "schedule": "how often each scheduler steps",
    "rates": "the learning rate at each step",
    "scale": "the course of the loss scale",
    "saved-scale": "the loss scale that is saved",
    "syncs": "the all-reduces per window",
    "divergence": "whether ranks end with different gradients",
    "dtype": "the dtype of a recompute",
    "shards": "scale, steps, gradients and parameters of two processes that each hold a shard",
    "gradient": "the gradient at the optimizer's step",
    "clip-norm": "the norm handed to the clip",
    "read-norm": "the norm that is inspected",
    "derivative": "the norm of what `autograd.grad` gives, where it is used",
    "skip-test": "what the code takes for the outcome of a step",
    "decay": "the updates of the moving average per step",
    "windows": "the micro-batches per step",
    "parameters": "the final parameters",
}
"""What the replay compares with a correct window, by observable."""

MADE_BY = "<!-- Made by `python -m ampcheck.pages` from the rules' docstrings: edit those. -->"


def summary(rule: Rule) -> str:
    """The first line of a rule's docstring, as one sentence without a full stop."""
    first = inspect.cleandoc(rule.__doc__ or "").split("\n\n", 1)[0]
    return " ".join(first.split()).removesuffix(".")


def oracle(rule: Rule) -> str:
    """What a replay of the rule's findings looks at, or why it cannot see them."""
    seen = [OBSERVED[observable] for observable in rule.oracle]
    seen += [f"what was measured with {measured.where}" for measured in rule.measured]
    return ", ".join(seen) or rule.unobservable or "nothing: the fault leaves no trace in numbers"


def page(rule: Rule) -> str:
    """The page of one rule, in Markdown."""
    off = ", off unless selected" if rule.opt_in else ""
    head = (
        f"# {rule.name} ({rule.code})\n\n*Severity*: {rule.severity}{off} · *Replay looks at*: {oracle(rule)}"
    )
    parts = [head, inspect.cleandoc(rule.__doc__ or "")]
    if rule.hint:
        parts.append(f"## Fix\n\n{rule.hint[0].upper()}{rule.hint[1:].removesuffix('.')}.")
    return "\n\n".join(parts) + "\n"


def index(rules: Iterable[Rule]) -> str:
    """The table of all rules, in Markdown."""
    rows = [
        f"| [{rule.code}]({rule.name}.md) | {rule.name} | {rule.severity} | "
        f"{_cell(summary(rule))} | {_cell(oracle(rule))} |"
        for rule in rules
    ]
    head = [
        "# Rules",
        "",
        "| code | name | severity | finds | the replay looks at |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([MADE_BY, *head, *rows]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """Every page by file name."""
    rules = tuple(rules)
    return {"index.md": index(rules)} | {f"{rule.name}.md": f"{MADE_BY}\n{page(rule)}" for rule in rules}


def stale(folder: Path, rules: Iterable[Rule]) -> list[str]:
    """The names of the files in a folder that are out of date, missing or superfluous."""
    wanted = pages(rules)
    present = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in wanted | present if wanted.get(name) != present.get(name))


def write(folder: Path, rules: Iterable[Rule]) -> list[str]:
    """Bring a folder up to date; the names of the files that were changed or removed."""
    rules = tuple(rules)
    wanted, changed = pages(rules), stale(folder, rules)
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], "utf-8")
        else:
            (folder / name).unlink()
    return changed


def main() -> int:
    """Write `docs/rules/` of the checkout that this module runs from."""
    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / "rules").is_dir():
        print("ampcheck.pages: run this from a checkout of ampcheck", file=sys.stderr)
        return 2
    for name in write(checkout / "docs" / "rules", registry.built_in()):
        print(f"docs/rules/{name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
