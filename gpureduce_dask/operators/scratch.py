"""Memory of a thread that is used again from block to block: fresh memory costs more than to compute in it."""

from __future__ import annotations

import threading

import numpy as np

from .monoid import Array, DType


class Scratch(threading.local):
    """Stretches by number. Each grows to the largest block and stays."""

    def __init__(self) -> None:
        self.stretches: list[Array] = []

    def block(self, number: int, dtype: DType, shape: tuple[int, ...], size: int) -> Array:
        nbytes = size * dtype.itemsize
        while len(self.stretches) <= number:
            self.stretches.append(np.empty(0, np.uint8))
        if self.stretches[number].size < nbytes:
            self.stretches[number] = np.empty(nbytes, np.uint8)
        return self.stretches[number][:nbytes].view(dtype).reshape(shape)
