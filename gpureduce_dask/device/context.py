"""The driver's own calls, and the device context of a thread, which they need and do not make."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading


class _Thread(threading.local):
    entered = False


_thread = _Thread()


def enter() -> None:
    """Make the context of the thread's current device current, on the first call of a thread.

    CUDA's runtime does so by itself when asked for memory or a copy; a new thread whose memory comes from a pool
    launches before it has asked for anything.
    """
    if _thread.entered:
        return
    from cupy.cuda import runtime

    runtime.setDevice(runtime.getDevice())  # since CUDA 12 it also makes the context current
    _thread.entered = True


@functools.cache
def driver() -> ctypes.CDLL:
    """The library of the driver; an ``OSError`` where there is none."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
