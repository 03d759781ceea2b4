"""Starts a rule: `rules/<name>.py` and `fixtures/<name>/`, with the next free code.

The rule is valid from the start and finds nothing; its wrong fixture expects a finding, so the tests say what is
left to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ampcheck import registry
from ampcheck.rule import Severity

__all__ = ["ScaffoldError", "new", "next_code"]


class ScaffoldError(Exception):
    """The rule cannot be started; the message says why."""


RULE = '''"""{code} {name}."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace


class {class_name}(Rule):
    """One sentence: what the code does wrong.

    ## What it does
    Finds ...

    ## Why is this bad
    With a loss scale S and a window of K micro-batches, ...

    ## Example
    ```python
    ```

    ## Use instead
    ```python
    ```

    ## References
    """

    code = "{code}"
    name = "{name}"
    severity = "{severity}"
    oracle = ("gradient",)
    hint = ""

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the violations of one trace."""
        yield from ()
'''

FIXTURE = '''"""{about}"""

import torch

scaler = torch.amp.GradScaler("cuda")


def train(model, optimizer, loader):
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer){expect}
        scaler.update()
'''


def new(
    name: str, *, code: str | None, series: int, severity: Severity, checkout: Path | None = None
) -> tuple[Path, ...]:
    """Make the files of a rule and return their paths.

    `code` is taken as it is, or the next free one of a `series` (1 for AMP1xx).  Raises `ScaffoldError` for a bad
    or taken name or code, or outside a checkout (the current folder, unless told).
    """
    checkout = checkout or Path()
    if not (checkout / "rules").is_dir() or not (checkout / "fixtures").is_dir():
        raise ScaffoldError(
            "rules are added in a checkout of ampcheck: there is no rules/ and fixtures/ here"
        )
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ScaffoldError(f"{name!r} is not a name of a rule; names read like clip-before-unscale")
    if code is not None and not re.fullmatch(r"AMP[1-9][0-9]{2}", code):
        raise ScaffoldError(f"{code!r} is not a code; codes read like AMP124")
    taken = {
        known: f"{rule.code} {rule.name}" for rule in registry.built_in() for known in (rule.code, rule.name)
    }
    # An ampcheck that is installed from elsewhere does not know what this checkout has come to hold.
    for path in sorted((checkout / "rules").glob("*.py")):
        for found in re.findall(r'^    (?:code|name) = "([^"]+)"', path.read_text("utf-8"), re.MULTILINE):
            taken.setdefault(found, str(path))
    code = code or next_code(series, taken)
    for wanted in (name, code):
        if wanted in taken:
            raise ScaffoldError(f"{wanted} is taken by {taken[wanted]}")
    stem = name.replace("-", "_")
    words = {
        "name": name,
        "code": code,
        "severity": severity,
        "class_name": "".join(map(str.capitalize, name.split("-"))),
    }
    files = {
        checkout / "rules" / f"{stem}.py": RULE.format(**words),
        checkout / "fixtures" / stem / "wrong_loop.py": FIXTURE.format(
            about="What is wrong here.", expect=f"  # expect: {code}"
        ),
        checkout / "fixtures" / stem / "right_loop.py": FIXTURE.format(
            about="The same, done right: silent.", expect=""
        ),
    }
    for path in files:
        if path.exists():
            raise ScaffoldError(f"{path} exists already")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tuple(files)


def next_code(series: int, taken: Iterable[str]) -> str:
    """The code after the highest of a series: gaps are codes that are retired or spoken for."""
    codes = [known for known in taken if re.fullmatch(rf"AMP{series}[0-9]{{2}}", known)]
    number = max((int(code[4:]) for code in codes), default=0) + 1
    if number > 99:
        raise ScaffoldError(f"AMP{series}xx is full; choose another series or a --code")
    return f"AMP{series}{number:02}"
