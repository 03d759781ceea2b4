"""What checking one training file costs: CPU time beside that of importing libcst and parsing the file once.

    python tests/bench/one_file.py [FILE]

Run it on a quiet machine; the ratios are what counts.  It is no test: nothing here is asserted.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPEATS = 7

PARSE = "import libcst, sys; libcst.parse_module(open(sys.argv[1]).read())"
PHASES = """
import sys, time
from ampcheck import check, lowering, registry, source, verdict
from ampcheck.program import Program
from ampcheck.running import explore
rules = registry.load()
path = sys.argv[1]
start = time.process_time()
module = lowering.lower(source.decode(path, source.read_bytes(path)))
lowered = time.process_time()
exploration = explore(Program(module))
run = time.process_time()
verdict.findings_of(exploration.traces, rules)
print(lowered - start, run - lowered, time.process_time() - run, len(exploration.traces))
"""


def cpu_seconds(*command: str) -> float:
    """The least CPU time of several runs of a command."""
    best = float("inf")
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main() -> None:
    """Print the figures."""
    path = sys.argv[1] if len(sys.argv) > 1 else str(HERE / "training_script.py")
    parse = cpu_seconds("-c", PARSE, path)
    check = cpu_seconds("-m", "ampcheck", "check", path)
    output = subprocess.run([sys.executable, "-c", PHASES, path], capture_output=True, text=True, check=True)
    lower, run, judge, traces = map(float, output.stdout.split())
    print(f"import libcst and parse once  {parse:.3f} s")
    print(f"ampcheck check                {check:.3f} s, {check / parse:.2f} times that")
    print(f"of it: reading {lower:.3f} s, running {run:.3f} s ({traces:.0f} traces), rules {judge:.3f} s")


if __name__ == "__main__":
    main()
