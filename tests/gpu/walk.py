"""One small reduction through every kernel family and finish, to run under compute-sanitizer."""

from __future__ import annotations

import numpy as np

from gpureduce_dask.chunk import device, device_scan
from gpureduce_dask.device.scan_methods import METHODS
from gpureduce_dask.history import STEPS
from gpureduce_dask.operators import OPERATORS
from gpureduce_dask.steps.runs import run

from .samples import LAYOUTS, make, rows, view_of


def main() -> None:
    import cupy as cp

    for number, (shape, axes, view) in enumerate(LAYOUTS):
        if number in (5,):
            continue  # large: nothing new
        for dtype in ("uint8", "float32", "float64"):
            x = make(shape, dtype, number)
            chunk = view_of(cp.asarray(x), view)
            names = rows(dtype)
            for name in ("sum", names[number % len(names)]):
                monoid = OPERATORS[name]
                if monoid.empty == "raise" and 0 in shape:
                    continue
                bound = monoid.bind(x.dtype)
                partial = device.reduce((chunk,), bound, axes)
                device.finalise(partial, bound).get()
                if name == "sum" and dtype == "uint8" and number % 3 == 0:
                    for finish in ("atomic", "two-pass"):
                        device.reduce((chunk,), bound, axes, finish=finish).get()
    chunks = [(cp.asarray(make((60, 90), "float32", i)),) for i in range(5)]
    bound = OPERATORS["sum"].bind(np.dtype("f4"))
    for axes in ((0,), (1,), (0, 1)):
        device.finalise(device.reduce_many(chunks, bound, axes), bound).get()
    walk_ladder()
    walk_scans()
    walk_one_read()
    cp.cuda.Device().synchronize()
    print(f"walked {len(LAYOUTS)} layouts")


SCANS = [  # shape, axis, and a view of the array: a kernel each, or an edge of one
    ((5001,), 0, lambda x: x[1:]),
    ((5001,), 0, lambda x: x[::-3]),
    ((70, 131), 1, None),
    ((70, 131), 1, lambda x: x[:, 1:-2]),
    ((300, 32), 1, lambda x: x[:, 4:]),
    ((5001, 32), 0, None),
    ((5001, 3), 0, None),
    ((5001, 7), 0, lambda x: x[:, 1:]),
    ((3, 700, 130), 1, lambda x: x[::-1, :, 2:]),
    ((20, 130), 0, None),
    ((900, 8), 0, lambda x: x[:, ::2]),
]


def walk_scans() -> None:
    """A small scan through every kernel, forward and in reverse, and by every method."""
    import cupy as cp

    for number, (shape, axis, view) in enumerate(SCANS):
        for dtype in ("uint8", "float32", "float64"):
            chunk = view_of(cp.asarray(make(shape, dtype, number)), view)
            bound = OPERATORS["sum"].bind(chunk.dtype)
            _, carry = device_scan.scan((chunk,), bound, axis)
            device_scan.scan((chunk,), bound, axis, carry, exclusive=True, reverse=True)
            resets = chunk > chunk.dtype.type(90)
            device_scan.scan((chunk,), bound, axis, carry, resets=resets)
        for method in METHODS:
            device_scan.scan((chunk,), bound, axis, carry, method=method)
        device_scan.scan((chunk, chunk), OPERATORS["affine"].bind(chunk.dtype, chunk.dtype), axis, resets=resets)
        device_scan.scan((chunk,), OPERATORS["argmax"].bind(chunk.dtype), axis)


def walk_one_read() -> None:
    """Several statistics, mapped elements and groups: a kernel of each kind."""
    import cupy as cp

    import gpureduce_dask as gr

    rng = np.random.default_rng(0)
    for shape, axis in (((5003,), 0), ((70, 131), 0), ((70, 131), 1)):
        x = cp.asarray(rng.normal(size=shape).astype("f4"))
        found = [*gr.stats(x, ["min", "argmax", "mean", "std", "sum"], axis=axis)]
        found.append(gr.map_reduce(lambda u, v: (u - 0.5) * v, "var", x, x[::-1], axis=axis))
        found.append(gr.map_scan(lambda u: u > 0.5, "sum", x, axis=axis))
        labels = cp.arange(shape[axis], dtype="i4") % 40
        found += [gr.grouped(x, labels, op, axis=axis, num_groups=40) for op in ("sum", "max", "argmin", "var")]
        for lazy in found:
            lazy.compute(scheduler="sync")
    x = cp.asarray(rng.normal(size=50_000))
    for groups in (10, 1000, 30_000):
        labels = cp.asarray(rng.integers(0, groups, x.size))
        for values in (x, x.astype("f4"), labels):
            gr.grouped(values, labels, "sum", num_groups=groups).compute(scheduler="sync")
    gr.histogram(x, 30, range=(-3, 3))[0].compute(scheduler="sync")


def walk_ladder() -> None:
    """Every step of the textbook ladder, at sizes with a tail."""
    import cupy as cp

    for step in STEPS:
        for n in (33, 5001) if step.kernel else ():
            x = cp.asarray(make((n,), "float32", n))
            run(step, x.reshape(3, -1) if step.family == "transpose" else x)


if __name__ == "__main__":
    main()
