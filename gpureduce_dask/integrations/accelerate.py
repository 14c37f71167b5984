"""Reductions of plain dask code, computed by this package: ``gr.accelerate()``.

dask's reductions, of whatever name, all call a few functions of ``dask.array.reductions``, and xarray's groups call one
function of flox. :mod:`gpureduce_dask.integrations.patches` wraps these functions. At every call the wrappers ask this
module whether the user wants the reduction from this package.
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

# How many objects are kept of which it is unknown whether they are calls for the process: those that become blocks are
# removed from the list, and of the others the last one counts.
PENDING = 100

Setting = bool | str
Function = TypeVar("Function", bound=Callable[..., Any])

_calls: list[accelerate] = []  # calls that hold for the process; the last one counts
_blocks: ContextVar[tuple[accelerate, ...]] = ContextVar("gpureduce_accelerate", default=())


class accelerate:
    """Have this package compute the reductions and scans of plain dask and xarray code.

    ``with gr.accelerate():`` holds for the block, and for its thread or asynchronous task alone. ``@gr.accelerate()``
    does the same for each call of a function or a coroutine function. A plain call ``gr.accelerate()`` holds for the
    process, until ``gr.accelerate(False)``.

    Parameters
    ----------
    on : bool or "numpy", default True
        False leaves all reductions to dask. ``"numpy"`` is True with ``numpy=True``.
    numpy : bool, default False
        Take arrays of NumPy chunks as well as those of CuPy chunks.
    fuse : bool, default True
        Where the chunks of a reduction have yet to be made, compute functions of elements as they are read:
        ``((x - m)**2).sum()`` makes no array of squares. False makes every array first, as dask does.

    Raises
    ------
    ArgumentError
        An argument has another value. Nothing is switched on then.
    ArgumentTypeError
        A generator or a class is decorated, whose bodies run outside of the call.

    See Also
    --------
    explain : Which calls were taken, and why others were not.

    Notes
    -----
    Arrays that are built while this is on have the graphs of this package's functions, and keep them: they can be
    computed after the block, and on workers where it was never on. What the package has no answer for is left to dask,
    unchanged.

    Inner blocks count before outer ones, blocks before calls, and calls before dask's configuration key
    ``gpureduce.accelerate`` (True, False or ``"numpy"``). The key counts in processes that called this once or imported
    ``gpureduce_dask.auto``. Setting the key ``gpureduce.fuse`` to False does what ``fuse=False`` does.

    Arrays of the package dask-array are taken where that package was imported before the call or the block, by the
    names of its reductions and scans.

    Examples
    --------
    >>> import dask.array as da
    >>> import gpureduce_dask as gr
    >>> x = da.ones((100, 20), chunks=(10, 20))
    >>> with gr.accelerate(numpy=True):
    ...     total = x.sum(axis=0)
    >>> total.name == gr.sum(x, axis=0).name
    True
    >>> @gr.accelerate(numpy=True)
    ... def spread(x):
    ...     return x.std()
    >>> gr.explain(spread(x))
    taken: std of (100, 20) float64 over all axes
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
        """Leave the innermost block of this object. Blocks of others may be open within it."""
        blocks = list(_blocks.get())
        for place in reversed(range(len(blocks))):
            if blocks[place] is self:
                del blocks[place]
                break
        _blocks.set(tuple(blocks))

    def __call__(self, function: Function) -> Function:
        """Return the function with each of its calls in a block of this object."""
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
        """Remove this object from the calls that hold for the process, since it is used for blocks."""
        with suppress(ValueError):  # removed before, or by another thread
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
    """Raise for what runs after its call has returned, when a block around the call is left."""
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
    """Wrap dask's reductions so that they ask :func:`wanted`, until the process ends."""
    from . import patches

    patches.install(wanted, fuses)


def wanted() -> Setting:
    """Which arrays this package takes here and now: none (False), those of CuPy chunks (True), or all (``"numpy"``)."""
    from ..configuration import setting

    here = _blocks.get() or tuple(_calls[-1:])
    if here:
        return here[-1].setting
    found = setting("accelerate")
    return NUMPY if found == NUMPY else bool(found)


def fuses() -> bool:
    """Whether reductions that are taken here and now compute functions of elements as they read them."""
    here = _blocks.get() or tuple(_calls[-1:])
    return here[-1].fuse if here else True
