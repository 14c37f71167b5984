"""Primes, counted as a sieve makes them
=====================================

Running counts of primes and running sums of Möbius' function. ::

    python examples/primes.py                        up to 10^7
    python examples/primes.py --upto 9               up to 10^9: a minute or two
    python examples/primes.py --cupy                 sieved with NumPy, scanned on the current GPU

The running count of primes is pi(n), the running sum of Möbius' function is Mertens' M(n). Both are known at every
power of ten (OEIS A006880 and A084237), and the script checks them. Of a running sum of 10^9 elements only some are
asked for: no chunk of it is in memory for longer than it takes to look.
"""

import argparse
import math

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import gpureduce_dask as gr

COUNTS = [0, 4, 25, 168, 1229, 9592, 78498, 664579, 5761455, 50847534]  # primes up to 10^k
MERTENS = [1, -1, 1, 2, -23, -48, 212, 1037, 1928, -222]
CHUNK = 1 << 21


def small_primes(limit: int) -> np.ndarray:
    sieve = np.ones(limit + 1, bool)
    sieve[:2] = False
    for p in range(2, math.isqrt(limit) + 1):
        if sieve[p]:
            sieve[p * p :: p] = False
    return np.flatnonzero(sieve)


def sieve_block(first: int, size: int, primes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the numbers from ``first`` on are prime, and Möbius' function of each, as int8."""
    numbers = np.arange(first, first + size)
    is_prime, sign, found = numbers > 1, np.ones(size, np.int8), np.ones(size, np.int64)
    for p in primes:
        if p * p > first + size - 1:
            break
        at = -first % p
        sign[at::p] *= -1
        found[at::p] *= p
        sign[-first % (p * p) :: p * p] = 0
        is_prime[max(p * p - first, at) :: p] = False
    sign[found != numbers] *= -1  # what is left is one prime more
    return is_prime.astype(np.int8), sign


def rows(primes: np.ndarray, xp, block_info=None) -> np.ndarray:
    (_, _), (first, stop) = block_info[None]["array-location"]
    return xp.asarray(np.stack(sieve_block(first + 1, stop - first, primes)))


# %%
# Two rows, primes and Möbius' function, are scanned together, in chunks that are sieved when they are needed.
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--upto", type=int, default=7, choices=range(1, 10), help="the power of ten to go to")
parser.add_argument("--cupy", action="store_true", help="scan on the GPU")
arguments = parser.parse_args()
if arguments.cupy:
    import cupy as xp
else:
    xp = np

size = 10**arguments.upto
sieved = da.zeros((2, size), dtype=np.int8, chunks=(2, CHUNK)).chunks
both = da.map_blocks(
    rows,
    small_primes(math.isqrt(size)),
    xp,
    chunks=sieved,
    dtype=np.int8,
    meta=gr.device_meta(2, "i1") if arguments.cupy else np.empty((0, 0), np.int8),
)
running = gr.cumsum(both, axis=1)
powers = range(arguments.upto + 1)
answers = dask.compute([running[:, 10**k - 1] for k in powers])[0]
for k, answer in zip(powers, answers, strict=True):
    count, mertens = (int(v) for v in answer)
    assert (count, mertens) == (COUNTS[k], MERTENS[k]), (k, count, mertens)
    print(f"up to 10^{k}: {count:>10,} primes, M = {mertens:>5,}")

# %%
# Mertens' function at some numbers, and plus and minus the square root of n.
shown = slice(0, size, max(1, size // 4096))
curve = running[1, shown].compute()
curve = curve.get() if hasattr(curve, "get") else curve
numbers = np.arange(1, size + 1)[shown]
figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
axes.plot(numbers, curve, linewidth=0.8, label="M(n)")
for sign in (1, -1):
    axes.plot(numbers, sign * np.sqrt(numbers), color="gray", linestyle=":")
axes.set(xlabel="n")
axes.legend()
plt.show()
