"""``python -m gpureduce_dask bench kernels``: kernels beside their peers and the ceiling."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ...operators import table as operators
from .cases import SMALL, VIEWS, Case, cases, dtype_of
from .ceilings import measure, mixed
from .peers import COMPILERS, PEERS
from .peers import versions as peer_versions
from .reference import agrees, expected
from .timing import device_seconds, host_seconds

Row = dict[str, Any]

PARTS, TOO_LONG = 64, 4.0  # a peer that would take TOO_LONG seconds is timed on one part of PARTS
WRITTEN = 8  # a row that writes more than one byte for so many it reads has a ceiling of its own: R only reads
MOST_WORDS = 8  # that a thread of a mixed copy writes
SCRUB_SECONDS = 1.0  # the driver clears what was freed: 10 % slower reads while it does


def make_data(case: Case) -> Any:
    """Random data of the case's shape: fresh bits, finite, and no product or sum that overflows."""
    import cupy as cp

    rng = cp.random.default_rng(7)
    dtype = dtype_of(case.dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, case.shape, dtype="u1").view("?")
    if dtype.kind in "iu":
        top = min(int(np.iinfo(dtype).max), 1 << 40)
        low = 1 if case.op == "all" else 0
        if dtype.itemsize == 1:
            words = rng.integers(0, 1 << 62, math.prod(case.shape) // 8 + 1, dtype="i8").view("u1")
            return (
                (words[: math.prod(case.shape)] & (255 if dtype.kind == "u" else 127)).view(dtype).reshape(case.shape)
            )
        return rng.integers(low, top, case.shape, dtype="i8").astype(dtype)
    parts = 2 if dtype.kind == "c" else 1
    real = rng.random(math.prod(case.shape) * parts, dtype="f8" if dtype.itemsize == 16 else "f4")
    real -= np.float32(0.25)
    if case.op.endswith("prod"):
        real *= np.float32(1e-4)
        real += np.float32(1 - 0.25e-4)
        if parts == 2:
            real *= np.float32(0.5**0.5)  # both parts are near 1: their number's size is the root of 2
    if dtype.kind == "c":
        return real.view(dtype).reshape(case.shape)
    return real.astype(dtype).reshape(case.shape)


@dataclass(frozen=True)
class Measured:
    """One row made ready: ours as a call, whether what it gives is right, and the bytes that must move."""

    call: Callable[[], Any]
    is_right: Callable[[Any], bool | None]  # None where there is no reference
    read: int
    written: int


@dataclass(frozen=True)
class Suite:
    """Rows that are measured alike, and the ceiling that their shares are of."""

    what: str
    ceiling: str
    cases: Callable[[float], list[Case]]
    small: Sequence[Case]
    measured: Callable[[Case, Any], Measured]
    peers: Mapping[str, Any]
    is_mixed: Callable[[int, int], bool]  # of bytes read and written: True where another ceiling is shown as well


def reduction(case: Case, x: Any) -> Measured:
    """One chunk reduced to finished results, by the chunk protocol's device side."""
    from ...device import reduce as device_reduce

    bound = operators.get(case.op).bind(x.dtype)
    axes = tuple(a % x.ndim for a in case.axes)

    def is_right(ours: Any) -> bool | None:
        wanted = expected(case.op, x, case.axis)
        return None if wanted is None else agrees(_drop(ours, axes), wanted)

    return Measured(
        lambda: device_reduce.reduce((x,), bound, axes, final=True),
        is_right,
        case.touched(x.itemsize),
        case.results * bound.result.itemsize,
    )


REDUCTIONS = Suite("reductions", "R", cases, SMALL, reduction, PEERS, lambda read, written: written * WRITTEN > read)


def _drop(x: Any, axes: tuple[int, ...]) -> Any:
    return x.reshape(tuple(n for a, n in enumerate(x.shape) if a not in axes))


def run_case(suite: Suite, case: Case, ceiling: float, data: Any, with_peers: bool = True) -> Row:
    """Check one case, then time it and its peers."""
    import cupy as cp

    x = VIEWS[case.view](data)
    measured = suite.measured(case, x)
    row: Row = {"case": case.label, "op": case.op, "dtype": case.dtype}
    begin = time.perf_counter()
    ours = measured.call()
    cp.cuda.get_current_stream().synchronize()
    row["first_call_s"] = time.perf_counter() - begin
    row["checked"] = measured.is_right(ours)
    del ours  # to the pool: memory given back to the driver is scrubbed while the next case is timed
    read, written = measured.read, measured.written
    nbytes = row["bytes"] = read + written
    row["ours_s"] = device_seconds(measured.call)
    row["ours"] = nbytes / row["ours_s"] / ceiling
    if suite.is_mixed(read, written):
        row["mixed"] = mixed(data, *_proportion(read, written)) / ceiling
    for name, peer in suite.peers.items() if with_peers else ():
        try:
            seconds = _peer_seconds(peer, case, x)
            row[name] = None if seconds is None else nbytes / seconds / ceiling
        except Exception as error:
            row[name] = None
            row[f"{name}_error"] = f"{type(error).__name__}: {str(error)[:120]}"
    return row


def _proportion(read: int, written: int) -> tuple[int, int]:
    """Words read and written, few enough for one thread to hold."""
    near = Fraction(read, written).limit_denominator(MOST_WORDS)
    return near.numerator, near.denominator


def _peer_seconds(peer: Any, case: Case, x: Any) -> float | None:
    """Seconds a peer takes; where a part of the array shows that it takes very long, the part's time scaled up."""
    op, part = f"{case.op} {case.mode}".rstrip(), x[: -(-x.shape[0] // PARTS)]
    first = peer(op, part, case.axis)
    if first is None:
        return None
    times = getattr(first, "times", 1)  # that the call does what is timed
    scaled = device_seconds(first, 3, 0.1) / times * x.shape[0] / part.shape[0]
    return scaled if scaled > TOO_LONG else device_seconds(peer(op, x, case.axis), patience=0.3) / times


def run_small(suite: Suite) -> list[Row]:
    """Host microseconds of one call on a small array."""
    rows: list[Row] = []
    for case in suite.small:
        x = make_data(case)
        call = suite.measured(case, x).call
        row: Row = {"case": case.label, "ours_us": host_seconds(call) * 1e6}
        row["ours_device_us"] = device_seconds(call, 50) * 1e6
        for name in ("CuPy", "torch"):
            other = suite.peers[name](case.op, x, case.axis)
            row[f"{name}_us"] = None if other is None else host_seconds(other) * 1e6
        rows.append(row)
    return rows


def run(
    suite: Suite = REDUCTIONS, gib: float = 4, only: str = "", with_peers: bool = True, out: Path | None = None
) -> dict[str, Any]:
    """All cases whose label matches ``only``; prints as it goes, returns and optionally writes the whole."""
    import cupy as cp

    name = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)["name"].decode()
    ceiling = measure(int(gib * 2**30))
    cp.get_default_memory_pool().free_all_blocks()
    versions = {"cupy": cp.__version__, "numpy": np.__version__, "gib": gib, "date": time.strftime("%Y-%m-%d")}
    peers = {"peers": peer_versions()} if with_peers else {}
    result: dict[str, Any] = {"what": suite.what, "gpu": name, **versions, **peers, **ceiling, "rows": []}
    result["small"] = run_small(suite)
    print(f"{name}: R {ceiling['R'] / 1e9:,.0f} GB/s, C {ceiling['C'] / 1e9:,.0f} GB/s", flush=True)
    for small in result["small"]:
        print({k: round(v, 1) if isinstance(v, float) else v for k, v in small.items()}, flush=True)
    previous: tuple[Any, ...] = ()
    data: Any = None
    for case in sorted(
        _matching(suite.cases(gib), only), key=lambda c: (c.dtype, c.shape, c.op == "all", "prod" in c.op)
    ):
        wanted = (case.dtype, case.shape, case.op == "all", "prod" in case.op)
        if wanted != previous:
            data = None
            cp.get_default_memory_pool().free_all_blocks()
            time.sleep(SCRUB_SECONDS)
            data, previous = make_data(case), wanted
        try:
            row = run_case(suite, case, ceiling[suite.ceiling], data, with_peers)
        except Exception as error:
            row = {"case": case.label, "error": f"{type(error).__name__}: {error}"[:2000]}
        result["rows"].append(row)
        print(describe(row, suite.ceiling), flush=True)
        if out:
            out.write_text(json.dumps(result, indent=1))
    return result


def _matching(rows: Iterable[Case], only: str) -> list[Case]:
    return [c for c in rows if re.search(only, c.label)]


def describe(row: Row, ceiling: str = "R") -> str:
    """One line a row: our share of the ceiling, the peers', and whether the result was right."""
    if "error" in row:
        return f"{row['case']:48s} ERROR {row['error'][:300]}"
    shares = "  ".join(f"{p} {row[p]:.3f}" for p in (*PEERS, *COMPILERS) if row.get(p) is not None)
    flag = {True: "", False: "  WRONG", None: "  unchecked"}[row["checked"]]
    return f"{row['case']:48s} ours {row['ours']:.3f} {ceiling}  {shares}{flag}"
