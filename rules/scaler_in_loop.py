"""AMP119 scaler-in-loop."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Build, Site, Step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, names, once_per_site, story


class ScalerInLoop(Rule):
    """A GradScaler is built anew for every epoch or batch.

    ## What it does
    Finds a GradScaler that is built inside a loop, or in a function that runs once an epoch, while the
    optimizer that it steps is the same all the time.

    ## Why is this bad
    A scaler learns its scale: it starts at 65536 and halves it at each overflow. A new one starts over, so
    that each epoch loses its first steps again to the same overflows; built for every batch, it may never get
    to step at all.

    ## Example
    ```python
    for epoch in range(epochs):
        scaler = torch.amp.GradScaler("cuda")
        for inputs, targets in loader:
            ...
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for inputs, targets in loader:
            ...
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    ```

    ## Known problems
    A new scaler beside a new optimizer is a new training (folds, trials) and right. Where no loop over epochs
    can be seen, a function counts as run once an epoch if it is told the epoch and is given the optimizer;
    one with no loop at all, which may run for each batch, is reported as possible, and so is a scaler that is
    built only if none was given.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html: one GradScaler "at the beginning of
      training".
    - Measured with gradients that need S below 3402: of 24 steps one scaler does 19, one for each epoch 9,
      one for each batch none.
    """

    code = "AMP119"
    name = "scaler-in-loop"
    severity = "warning"
    oracle = ("steps", "scale")
    hint = "build the scaler once, before the loop, and pass it in"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each scaler that is built again while its optimizer stays."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        builds: dict[Site, list[tuple[Record, Build]]] = {}
        for record, build in trace.of(Build):
            if build.kind == "scaler":
                builds.setdefault(build.site, []).append((record, build))
        for same in builds.values():
            if len(same) < 2 or same[0][0].iteration == same[1][0].iteration:
                continue
            (first, build), (second, _) = same[:2]
            scalers = {b.role for _, b in same}
            lasting = [
                o for o in _stepped(trace, scalers, first.index, second.index) if _lasts(trace, o, second)
            ]
            again = _stepped(trace, scalers, second.index, len(trace.records))
            lasting = [o for o in lasting if o in again]
            if not lasting:
                continue
            each = "batch" if len(_micros_between(trace, first, second)) == 1 else "epoch"
            # The first call is the root's own, which nobody wrote.
            calls = second.calls if trace.root == "the module" else second.calls[1:]
            through = f" (called in line {calls[-1].line})" if calls else ""
            known = all(_is_surely_kept(trace, o) for o in lasting) and are_known(trace, build.role)
            yield Violation(
                second.index,
                f"{name(trace, build.role)} is built anew for every {each}{through} while it steps the same "
                f"{names(trace, lasting)}: its scale starts over each time",
                story(trace, first, *again.values()),
                certain=known and not trace.repeated and not _is_a_fallback(second),
            )


def _stepped(trace: Trace, scalers: set[str], start: int, stop: int) -> dict[str, int]:
    """The optimizers that some scalers step between two records, with the place of the first step."""
    found: dict[str, int] = {}
    for record in trace.between(start, stop):
        if isinstance(record.event, Step) and record.event.scaler in scalers:
            found.setdefault(record.event.optimizer, record.index)
    return found


def _lasts(trace: Trace, optimizer: str, second: Record) -> bool:
    """Whether an optimizer is not built anew together with its scaler."""
    builds = [r for r, build in trace.of(Build) if build.kind == "optimizer" and build.role == optimizer]
    return not any(r.iteration == second.iteration and r.iteration for r in builds)


def _micros_between(trace: Trace, first: Record, second: Record) -> set[int]:
    """The micro-batches between two records."""
    return {r.micro for r in trace.between(first.index, second.index) if isinstance(r.event, Step)}


def _is_surely_kept(trace: Trace, optimizer: str) -> bool:
    """Whether an optimizer is built where it can be seen, or comes from the caller: then nobody replaces it unseen."""
    role = trace.roles.get(optimizer)
    return role is not None and (role.site is not None or role.given)


def _is_a_fallback(build: Record) -> bool:
    """Whether a scaler is built only where a test of the user's own says that there is none yet."""
    return any("scal" in guard.text.lower() for guard in build.guards)
