"""The recursive pairwise sum on the CPU: where the ladder begins, and the reference of its other steps."""

from __future__ import annotations

from typing import Any


def pairwise(x: Any) -> Any:
    """Sum of a NumPy array in its own dtype, as an array of one element.

    The second half is added onto the first until one element is left (Cheng, Grossman and McKercher's recursive sum,
    which loses the middle of an odd length: here it stays for the next round). The error grows with log(n).
    """
    x = x.reshape(-1)
    while x.size > 1:
        half, odd = divmod(x.size, 2)
        folded = x[: half + odd].copy()
        folded[:half] += x[half + odd :]
        x = folded
    return x
