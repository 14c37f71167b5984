"""Plain dask code on the trees of this package: ``gr.accelerate()``.

dask's reductions, of whatever name, end in a few functions of ``dask.array.reductions``, and xarray's groups in one of
flox. :mod:`gpureduce_dask.integrations.patches` wraps those; at every call the wrappers ask here whether the reduction
is wanted from us.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, message

NUMPY = "numpy"  # the setting that takes arrays of NumPy chunks too; True takes those of CuPy chunks alone

# How many calls are remembered: those that become blocks are forgotten then, and of the others the last one counts.
PENDING = 100

Setting = bool | str
Function = TypeVar("Function", bound=Callable[..., Any])

_calls: list[accelerate] = []  # for the whole process, the last one counts
_blocks: ContextVar[tuple[accelerate, ...]] = ContextVar("gpureduce_accelerate", default=())


class accelerate:
    """Take plain dask reductions onto the kernels and trees of this package: ``x.sum()``, ``np.var(x, axis=0)``.

    A call holds for the process; ``accelerate(False)`` ends it. ``with accelerate():`` holds for the block and, as a
    context variable does, for its thread or task alone; ``@accelerate()`` puts every call of a function, or of a
    coroutine function, into such a block. Blocks go before calls, the inner before the outer, and calls before dask's
    configuration key ``gpureduce.accelerate`` (True, False or ``"numpy"``), which is asked for wherever accelerate was
    called once or :mod:`gpureduce_dask.auto` was imported.

    Parameters
    ----------
    on : bool or "numpy"
        False leaves every reduction to dask; ``"numpy"`` is True with ``numpy=True``, as in the configuration.
    numpy : bool
        Take arrays of NumPy chunks too, not those of CuPy chunks alone.
    fuse : bool
        Where a reduction's chunks have yet to be made, compute the functions of elements at the end of their chain as
        they are read, ``((x - m)**2).sum()`` without an array of squares. False makes every chunk first, as dask does;
        so does dask's configuration key ``gpureduce.fuse``.

    Graphs built meanwhile are those of the functions of this package: they stay valid, and run on workers where
    nothing was switched on. Arrays of the package dask-array are taken where it was imported before the call or block,
    by the names of its reductions and scans. What this package has no answer for goes to dask untouched.

    Raises
    ------
    ArgumentError
        An argument of another value: nothing is switched on then.
    ArgumentTypeError
        A decorated generator or class: their bodies run outside of the call.
    """

    def __init__(self, on: bool | str = True, *, numpy: bool = False, fuse: bool = True) -> None:
        self.setting = _setting(on, numpy)
        self.fuse = _switch("fuse", fuse)
        if self.setting:
            install()
        _calls.append(self)
        del _calls[:-PENDING]

    def __enter__(self) -> accelerate:
        self._forget_call()
        _blocks.set((*_blocks.get(), self))
        return self

    def __exit__(self, *exception: Any) -> None:
        """Leave the last of this switch's blocks, whichever others are still open."""
        blocks = list(_blocks.get())
        for place in reversed(range(len(blocks))):
            if blocks[place] is self:
                del blocks[place]
                break
        _blocks.set(tuple(blocks))

    def __call__(self, function: Function) -> Function:
        """A function each of whose calls is a block of this switch."""
        self._forget_call()
        _require_function(function)
        wrapper: Callable[..., Any]
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return cast(Function, wrapper)

    def _forget_call(self) -> None:
        """This switch is for blocks and no call that holds for the process."""
        with suppress(ValueError):  # forgotten before, or by another thread
            _calls.remove(self)


def _setting(on: Any, numpy: Any) -> Setting:
    if callable(on):
        raise ArgumentTypeError(
            message("accelerate", f"the function {_name_of(on)}", "True, False or 'numpy'", "Write @accelerate().")
        )
    if isinstance(on, str) and on == NUMPY:
        return NUMPY
    takes_numpy = _switch("numpy", numpy)
    if not isinstance(on, bool | np.bool_):
        remedy = "accelerate(numpy=True) takes NumPy chunks, too."
        raise ArgumentError(message("accelerate", repr(on), f"True, False or {NUMPY!r}", remedy))
    return NUMPY if on and takes_numpy else bool(on)


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(message("accelerate", f"{name}={value!r}", "True or False", "Pass one of them."))
    return bool(value)


def _require_function(function: Any) -> None:
    """Raise for what a block around its call would not reach into."""
    if inspect.isclass(function):
        what, remedy = "the class", "Decorate its methods."
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        what, remedy = "the generator", "Put `with accelerate():` around the loop over it."
    elif not callable(function):
        what, remedy = "the", "Write @accelerate() above a def, and below @classmethod."
    else:
        return
    expected = "a function or a coroutine function"
    raise ArgumentTypeError(message("accelerate", f"{what} {_name_of(function)}", expected, remedy))


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or f"{type(function).__name__} {function!r}"


def install() -> None:
    """Make dask's reductions ask :func:`wanted`, for the rest of the process."""
    from . import patches

    patches.install(wanted, fuses)


def wanted() -> Setting:
    """What is switched on here and now: nothing (False), CuPy chunks (True), or ``"numpy"`` chunks too."""
    from ..graph.arguments import setting

    here = _blocks.get() or tuple(_calls[-1:])
    if here:
        return here[-1].setting
    found = setting("accelerate")
    return NUMPY if found == NUMPY else bool(found)


def fuses() -> bool:
    """Whether the reductions that are taken here and now compute what they read."""
    here = _blocks.get() or tuple(_calls[-1:])
    return here[-1].fuse if here else True
