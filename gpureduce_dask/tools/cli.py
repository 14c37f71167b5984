"""Command line: one subcommand a module, each with ``add_arguments(parser)`` and ``run(args) -> exit status``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from .. import __version__
from ..errors import GpureduceError

# name: (module, one line of help); the module of the chosen subcommand alone is imported.
COMMANDS = {
    "demo": ("demo", "what share of the Earth is land? 933 million cells, on a GPU or without one"),
    "bench": (
        "bench.command",
        "the kernels beside CuPy, torch and cuda.compute; whole trees and NumPy chunks beside stock dask",
    ),
    "ladder": ("ladder.command", "the textbook ladder of reductions, scans and transposes: checked, timed, explained"),
    "doctor": ("doctor", "what is installed here, what is missing or broken, and how to mend it"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status; a refusal is one line on standard error."""
    about = "CUDA reductions and scans for dask.array"
    parser = argparse.ArgumentParser(prog="python -m gpureduce_dask", description=about)
    parser.add_argument("--version", action="version", version=f"gpureduce-dask {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    given, rest = parser.parse_known_args(arguments)

    module, text = COMMANDS[given.command]
    command = import_module(f".{module}", __package__)
    own = argparse.ArgumentParser(prog=f"{parser.prog} {given.command}", description=text)
    command.add_arguments(own)
    try:
        return int(command.run(own.parse_args(rest)))
    except GpureduceError as error:
        print(error, file=sys.stderr)
        return 1
