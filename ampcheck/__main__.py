"""`python -m ampcheck` is `ampcheck`."""

from ampcheck.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
