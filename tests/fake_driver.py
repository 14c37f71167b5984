"""A driver for uploads whose GPU is memory of this machine: what is copied arrives at once."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gpureduce_dask.device import launch, upload

CONTEXT = 1
POINTER, SIZE, NUMBER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
_KINDS = {
    "cuCtxSetCurrent": (POINTER,),
    "cuMemAllocHost_v2": (ctypes.POINTER(POINTER), SIZE),
    "cuEventCreate": (ctypes.POINTER(POINTER), ctypes.c_uint),
    "cuEventSynchronize": (POINTER,),
    "cuMemcpyHtoDAsync_v2": (NUMBER, POINTER, SIZE, POINTER),
    "cuEventRecord": (POINTER, POINTER),
}
_PINNED: list[Any] = []  # threads keep their buffers as long as they live


class FakeDriver:
    """``calls`` are the functions by their names, to be replaced; ``sizes`` the bytes of each copy."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.calls: dict[str, Callable[..., int]] = {
            "cuCtxSetCurrent": lambda context: 0 if context == CONTEXT else 201,
            "cuMemAllocHost_v2": self._pinned,
            "cuEventCreate": self._event,
            "cuEventSynchronize": lambda event: 0,
            "cuMemcpyHtoDAsync_v2": self._copy,
            "cuEventRecord": lambda event, stream: 0,
        }
        self._functions = [
            ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(lambda *given, name=name: self.calls[name](*given))
            for name, kinds in _KINDS.items()
        ]
        assert list(_KINDS) == upload.DRIVER
        self.table = (POINTER * len(_KINDS))(*(ctypes.cast(f, POINTER).value for f in self._functions))

    def install(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(upload, "_driver", lambda: self.table)
        monkeypatch.setattr(launch, "current_context", lambda: CONTEXT)
        monkeypatch.setattr(launch, "current_stream", lambda: 0)
        monkeypatch.setattr(launch, "new_array", _new_array)
        monkeypatch.setattr(launch, "check", _check)

    def _pinned(self, at: Any, nbytes: int) -> int:
        _PINNED.append(np.zeros(nbytes, "u1"))
        at[0] = _PINNED[-1].ctypes.data
        return 0

    def _event(self, event: Any, flags: int) -> int:
        event[0] = threading.get_ident()
        return 0

    def _copy(self, to: int, at: int, nbytes: int, stream: int | None) -> int:
        self.sizes.append(nbytes)
        ctypes.memmove(to, at, nbytes)
        return 0


def _new_array(shape: Any, dtype: Any, nbytes: int) -> Any:
    out = np.full(shape, 77, dtype)
    return out, out.ctypes.data


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"status {status}")
