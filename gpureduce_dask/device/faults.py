"""What CUDA can do to a process: it does not start, a fork leaves it behind, a fault in a kernel ends it."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..errors import DeviceError, message

# CUDA's runtime and its driver count their errors alike. Not initialised (as in a forked child), a driver that is a
# stub, too old, missing or not ready, no GPU, or none that is free:
UNUSABLE = frozenset({3, 34, 35, 46, 100, 802, 803, 804})
# After these all of CUDA fails until the process is started anew: illegal address, launch timeout, assert, hardware
# stack error, illegal instruction, misaligned address, invalid address space, invalid program counter, launch failure,
# tensor memory leak.
STICKY = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719, 721})
TRAPPED = frozenset({715, 719})  # what a kernel's own end is among (kernels/scan/tile_state.cuh)

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)
_is_forked = False


def begin(forget: Callable[[], object]) -> None:
    """Before the first use of CUDA in a process: raise in a forked child, and make children forked later come here.

    ``forget`` drops in the child what the caller remembers.
    """
    if _is_forked:
        raise DeviceError(
            message(
                "reduce",
                "a process forked from one that used CUDA",
                "a process that starts CUDA itself",
                'Start processes with multiprocessing.get_context("spawn").',
            )
        )
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(_leave_behind, forget))


def _leave_behind(forget: Callable[[], object]) -> None:
    global _is_forked
    _is_forked = True
    forget()


def task(function: Callable[P, T]) -> Callable[P, T]:
    """A task whose errors of CUDA say what to do.

    A fault that ends CUDA for the process ends a worker too, rather than fail every later task.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            status = getattr(error, "status", None)
            if status in UNUSABLE:
                raise _unusable(error) from error
            if status in STICKY:
                raise _ended(error, status) from error
            raise

    return run


def _unusable(error: RuntimeError) -> DeviceError:
    return DeviceError(
        message(
            "reduce",
            f"CUDA does not start ({error})",
            "an NVIDIA driver and a GPU",
            "Install the driver, keep the chunks in NumPy arrays, or start processes without a fork.",
        )
    )


def _ended(error: RuntimeError, status: int) -> BaseException:
    waits = "; so ends a scan, too, whose tile waits in vain for one before it" if status in TRAPPED else ""
    text = message(
        "reduce",
        f"CUDA is lost to process {os.getpid()} ({error}){waits}",
        "kernels that keep to their memory",
        "Start the process anew; compute-sanitizer names the kernel.",
    )
    if not _has_nanny():
        return DeviceError(text)
    _log.critical("%s The worker exits.", text)
    return SystemExit(text)  # what distributed lets pass through a task, to end the worker


def _has_nanny() -> bool:
    """True in a task of a worker that somebody starts anew when it exits."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        return distributed.get_worker().nanny is not None
    except ValueError:  # no worker runs this
        return False
