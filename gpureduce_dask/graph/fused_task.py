"""The earlier name of :mod:`group_task`, by which tests of emulated groups still import it."""

from .group_task import run

__all__ = ["run"]
