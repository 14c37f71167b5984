"""The device context of a thread, which the driver's own calls need and do not make."""

from __future__ import annotations

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
