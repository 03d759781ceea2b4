"""AMP604 deprecated-amp-api."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Deprecated
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import once_per_site


class DeprecatedAmpApi(Rule):
    """A deprecated name of the AMP interface is used.

    ## What it does
    Finds `torch.cuda.amp.*` and `torch.cpu.amp.*`.

    ## Why is this bad
    Since torch 2.4 each use gives a FutureWarning, and the names will go. Nothing is wrong with the training.

    ## Example
    ```python
    scaler = torch.cuda.amp.GradScaler()
    with torch.cuda.amp.autocast():
        loss = criterion(model(inputs), targets)
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.amp.autocast("cuda"):
        loss = criterion(model(inputs), targets)
    ```

    ## Known problems
    `torch.amp.GradScaler` exists since torch 2.3: projects that support older versions have to keep the old name. Where
    a requirement of the project (pyproject.toml, requirements.txt, setup.py, setup.cfg, environment.yml) admits nothing
    from 2.4 on, nothing is reported; where it admits versions without the new name, the fix is unsafe.

    ## References
    - [Automatic mixed precision package](https://docs.pytorch.org/docs/stable/amp.html)
    - [Deprecation of torch.cuda.amp](https://github.com/pytorch/pytorch/pull/126527)
    """

    code = "AMP604"
    name = "deprecated-amp-api"
    severity = "note"
    oracle = ("warning",)
    hint = "use the name in torch.amp and pass the device"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each use of a deprecated name."""
        yield from once_per_site(
            trace,
            (
                Violation(record.index, f"`{event.name}` is deprecated; use `{event.instead}`")
                for record, event in trace.of(Deprecated)
            ),
        )
