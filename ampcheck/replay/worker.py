"""The process that has torch: reads jobs on standard input, writes one line of JSON for each on standard output.

Input: ``{"device": "auto" | "cpu" | "cuda", "jobs": [{"id", "kind": "judge" | "compare" | "measure", ...}]}``, with
``"remember": false`` to execute equal scripts each time.
Output: first ``{"device": ..., "torch": ...}``, then ``{"id", "device", ...}`` for each job.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

__all__ = ["main"]


def main() -> int:
    """Do all jobs; a job that breaks is reported and does not stop the others."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    request = json.load(sys.stdin)
    import torch

    from ampcheck.replay.uncompiled import stand_in

    stand_in()
    torch.set_num_threads(1)
    device = request["device"]
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        _say(answers, {"unavailable": "the device cuda was asked for, but torch sees none"})
        return 0
    _say(answers, {"device": device, "torch": torch.__version__})
    bench = _Bench(device, request.get("remember", True))
    try:
        if any(job["job"]["oracle"] == ["shards"] for job in request["jobs"]):
            bench.start_pair()  # now, so that they import torch while other jobs are done
        for job in request["jobs"]:
            _say(answers, {"id": job["id"], **_answer(job, bench)})
    finally:
        bench.close()
    return 0


def _say(answers: TextIO, data: dict[str, Any]) -> None:
    answers.write(json.dumps(data) + "\n")
    answers.flush()


class _Bench:
    """Executes scripts, equal ones only once for each scenario; remembers which device it used last."""

    def __init__(self, device: str, remember: bool = True) -> None:
        self.remember = remember
        self.device = self.used = device
        self.pair: Any = None
        self.done: dict[str, dict[str, Any]] = {}

    def __call__(self, members: Any, ops: Sequence[Any], scenario: Any) -> Any:
        from dataclasses import asdict

        from ampcheck.replay.machine import execute
        from ampcheck.replay.observe import Observed

        self.used = "cpu" if scenario.ranks > 1 else self.device
        key = json.dumps([members, ops, asdict(scenario)])
        if key not in self.done or not self.remember:
            if scenario.name.startswith("shards"):
                observed = self._on_shards(members, ops, scenario)
            elif scenario.ranks > 1:
                from ampcheck.replay.ranks import execute_ranks

                observed = execute_ranks(members, ops, scenario)
            else:
                observed = execute(members, ops, scenario, self.device)
            self.done[key] = observed.as_dict()
        return Observed(**self.done[key])

    def _on_shards(self, members: Any, ops: Sequence[Any], scenario: Any) -> Any:
        """On two processes, which are started anew after a failure."""
        self.start_pair()
        try:
            return self.pair.execute(members, ops, scenario)
        except RuntimeError:
            self.close()
            raise

    def start_pair(self) -> None:
        """Start both processes, unless they run."""
        from ampcheck.replay.pair import Pair

        self.pair = self.pair or Pair()

    def close(self) -> None:
        """End what was started."""
        if self.pair is not None:
            self.pair.close()
            self.pair = None


def _answer(data: dict[str, Any], bench: _Bench) -> dict[str, Any]:
    from ampcheck.replay.apart import Others, judge_apart
    from ampcheck.replay.judge import Job, compare
    from ampcheck.replay.scenarios import Scenario

    try:
        job = Job.read(data["job"])
        if data["kind"] == "measure":
            scenario = Scenario(**data["scenario"])
            scripts = job.whole if scenario.whole else job.excerpt
            ops = scripts.references[0][1] if data["reference"] else scripts.user
            return {"observed": bench(job.members, ops, scenario).as_dict(), "device": bench.used}
        if data["kind"] == "compare":
            return {"deviations": compare(job, bench), "device": bench.used}
        alone = Job.read(data["alone"]) if data.get("alone") else None
        verdict = judge_apart(job, alone, Others.read(data), bench)
        return {
            "outcome": verdict.outcome,
            "text": verdict.text,
            "figures": verdict.figures,
            "device": bench.used,
        }
    except Exception as error:  # whatever breaks here is the replay's fault, not the user's
        return {"broken": f"the replay itself failed: {type(error).__name__}: {error}", "device": bench.used}


if __name__ == "__main__":
    sys.exit(main())
