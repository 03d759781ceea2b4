#!/bin/sh
# All checks that want a CUDA device, with the torch that is there (2.3 or newer); nothing is installed or downloaded.
# Without CUDA the same checks run on the CPU as far as they can, and the summary says so.  PYTHON names another Python.
cd "$(dirname "$0")/../.." || exit 2
export PYTHONPATH="$PWD" PYTHONDONTWRITEBYTECODE=1
limit=""
if command -v timeout >/dev/null; then limit="timeout 290"; fi
exec $limit "${PYTHON:-python3}" -m tests.device.checks "$@"
