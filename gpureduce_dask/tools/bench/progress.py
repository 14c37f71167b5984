"""What a benchmark says while it runs."""

from __future__ import annotations

import sys


def progress(text: str) -> None:
    """Print a line on standard error, at once: standard output is for the results."""
    print(text, file=sys.stderr, flush=True)
