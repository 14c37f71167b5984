"""Plain dask code on the trees of this package: ``gr.accelerate()``.

dask's reductions, of whatever name, end in a few functions of ``dask.array.reductions``, and xarray's groups in one of
flox. :mod:`gpureduce_dask.trees.hooks` wraps those; at every call the wrappers ask here whether the reduction is wanted
from us.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from .errors import ArgumentError, message

KEY = "gpureduce.accelerate"
NUMPY = "numpy"  # the setting that takes arrays of NumPy chunks too; True takes those of CuPy chunks alone

# How many calls are remembered: those that become blocks are forgotten then, and of the others the last one counts.
PENDING = 100

Setting = bool | str

_calls: list[accelerate] = []  # for the whole process, the last one counts
_blocks: ContextVar[tuple[accelerate, ...]] = ContextVar("gpureduce_accelerate", default=())


class accelerate:
    """Take plain dask reductions onto the kernels and trees of this package: ``x.sum()``, ``np.var(x, axis=0)``.

    A call holds for the process; ``accelerate(False)`` ends it. ``with accelerate():`` holds for the block and, as a
    context variable does, for its thread or task alone. Blocks go before calls, the inner before the outer, and calls
    before dask's configuration key ``gpureduce.accelerate`` (True, False or ``"numpy"``), which is asked for wherever
    accelerate was called once or :mod:`gpureduce_dask.auto` was imported.

    Parameters
    ----------
    on : bool
        False leaves every reduction to dask.
    numpy : bool
        Take arrays of NumPy chunks too, not those of CuPy chunks alone.
    fuse : bool
        Where a reduction's chunks have yet to be made, compute the functions of elements at the end of their chain as
        they are read, ``((x - m)**2).sum()`` without an array of squares. False makes every chunk first, as dask does;
        so does dask's configuration key ``gpureduce.fuse``.

    Graphs built meanwhile are those of the functions of this package: they stay valid, and run on workers where
    nothing was switched on. What this package has no answer for goes to dask untouched. Raises ArgumentError where
    dask's array expressions are on.
    """

    def __init__(self, on: bool = True, *, numpy: bool = False, fuse: bool = True) -> None:
        self.setting: Setting = NUMPY if on and numpy else bool(on)
        self.fuse = fuse
        if on:
            install()
        _calls.append(self)
        del _calls[:-PENDING]

    def __enter__(self) -> accelerate:
        with suppress(ValueError):  # entered before, or by another thread
            _calls.remove(self)
        _blocks.set((*_blocks.get(), self))
        return self

    def __exit__(self, *exception: Any) -> None:
        _blocks.set(_blocks.get()[:-1])


def install() -> None:
    """Make dask's reductions ask :func:`wanted`, for the rest of the process."""
    from .trees import hooks

    hooks.install(wanted, fuses)


def wanted() -> Setting:
    """What is switched on here and now: nothing (False), CuPy chunks (True), or ``"numpy"`` chunks too."""
    import dask

    blocks, calls = _blocks.get(), _calls[-1:]
    if blocks:
        return blocks[-1].setting
    if calls:
        return calls[0].setting
    setting = dask.config.get(KEY, None)
    if setting in (None, False, True, NUMPY):
        return NUMPY if setting == NUMPY else bool(setting)
    raise ArgumentError(
        message(
            KEY,
            repr(setting),
            f"True, False or {NUMPY!r}",
            "Correct dask's configuration or DASK_GPUREDUCE__ACCELERATE.",
        )
    )


def fuses() -> bool:
    """Whether the reductions that are taken here and now compute what they read."""
    here = _blocks.get() or tuple(_calls[-1:])
    return here[-1].fuse if here else True
