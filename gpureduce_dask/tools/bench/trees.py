"""``python -m gpureduce_dask bench trees``: whole trees on a cluster of this machine, beside stock dask."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import gpureduce_dask as gr

from . import local_cupy, memory
from .host import processor
from .peers import cupy_version, versions
from .progress import progress
from .timing import median_seconds, seconds

Result = dict[str, Any]
Row = dict[str, Any]

CHUNKS = (16, 128, 512, 1024, 4096)
OPS = ("sum", "mean", "max", "var", "argmax")
EXACT = ("max", "argmax")
FIRST = "sum, the first of an array"
LAZY = ("sum", "sum of squares about 0.5")
MOST_LAZY = 1024  # chunks: making more takes minutes, and shows nothing new
FIRST_REPEATS = 3  # each on an array that was persisted anew
ENOUGH = 1.0  # seconds of stock dask after which it is not run again: a tree of thousands of tasks takes many
PATIENCE = 60.0  # seconds until a result counts as never coming


@dataclass
class Bench:
    """One cluster, what is measured on it, and until when."""

    client: Any
    gpus: int
    workers: int
    nbytes: int
    repeats: int
    with_stock: bool
    until: float
    write: Callable[[], None]
    rows: list[Row] = field(default_factory=list)

    @property
    def reference(self) -> int:
        """The number of chunks at which every operator is timed beside stock dask: 128 a worker."""
        return 128 * self.workers

    def case(self, row: Row, measure: Callable[[Row], None]) -> None:
        """Measure one row, or note why not; the JSON is written either way."""
        if time.monotonic() > self.until:
            row["error"] = "no time left"
        else:
            try:
                measure(row)
            except Exception as error:  # one case that fails must not take the others along
                row["error"] = f"{type(error).__name__}: {error}"[:300]
        self.rows.append(row)
        self.write()
        progress(describe(row))

    def compute(self, function: Callable[[Any], Any], x: Any) -> Any:
        """What a user pays: ``client.compute`` would run a task more, which gives the result another key."""
        return function(x).compute()

    def array(self, chunks: int) -> Any:
        return lazy_array(chunks, self.nbytes, self.gpus > 0)

    def persist(self, chunks: int) -> Any:
        return self.hold(self.array(chunks))

    def hold(self, x: Any) -> Any:
        """The array in the workers' memory."""
        from distributed import wait

        x = self.client.persist(x)
        wait(x, timeout=PATIENCE)
        return x


def describe(row: Row) -> str:
    """One line of a case that has ended."""
    name = f"{row['kind']} {row['case']}, {row['chunks']} chunks"
    if "error" in row:
        return f"{name}: FAILED: {row['error']}"
    times = (f"{key} {row[key] * 1e3:.1f} ms" for key in ("later", "stock", "off") if row.get(key))
    return f"{name}: {', '.join(times)}{'' if row.get('checked', True) else '  WRONG'}"


@contextmanager
def cluster(gpus: int, workers: int, protocol: str | None = "tcp") -> Iterator[Any]:
    """A client of so many workers on this machine: one a GPU, or NumPy workers; of one thread, kernels not compiled."""
    with gr.cluster.start(
        gpus or workers,
        gpu=gpus > 0,
        protocol=protocol,
        dashboard_address="127.0.0.1:0",
        threads_per_worker=1,
    ) as client:
        gr.warm(client, ops=())
        yield client


def make_chunk(on_gpu: bool, block_info: Any = None) -> Any:
    """Random float32 in [0, 1), another for each chunk."""
    about = block_info[None]
    shape = about["chunk-shape"]
    number = int(np.ravel_multi_index(about["chunk-location"], about["num-chunks"]))
    if on_gpu:
        import cupy

        # CuPy's default, XORWOW, takes 578 us for 64 MiB, which an H200 reads in 15: nothing of the tree would show.
        return cupy.random.Generator(cupy.random.Philox4x3210(number)).random(shape, dtype="f4")
    return np.random.default_rng(number).random(shape, dtype="f4")


def lazy_array(chunks: int, nbytes: int, on_gpu: bool) -> Any:
    """An array of so many chunks and bytes, which is yet to be made."""
    return random_array(((max(1, nbytes // 4 // chunks),) * chunks,), on_gpu)


def random_array(chunks: tuple[tuple[int, ...], ...], on_gpu: bool) -> Any:
    """An array of random chunks of these sizes along each axis, which is yet to be made."""
    ndim = len(chunks)
    meta = gr.device_meta(ndim, "f4") if on_gpu else np.empty((0,) * ndim, "f4")
    return da.map_blocks(make_chunk, on_gpu, chunks=chunks, dtype="f4", meta=meta)


def round_trip(client: Any, repeats: int = 25) -> float:
    """Median seconds of a task that does nothing, from the client and back."""
    return median_seconds(lambda: client.submit(int, pure=False).result(), repeats)[0]


def rates() -> dict[str, float]:
    """Bytes a second of the fastest read and of the fastest copy of this process's GPU."""
    from . import ceilings

    return ceilings.measure(2 << 30)


def persisted(bench: Bench, chunks: int) -> None:
    """Reductions of arrays that the workers hold: later ones of one array, stock dask's, and the first of others."""
    cache: list[Any] = []  # the array, where it could be made
    for op in OPS:
        bench.case({"case": op, "kind": "persisted", "chunks": chunks}, partial(_later, bench, cache, op))
    cache.clear()
    bench.case({"case": FIRST, "kind": "persisted", "chunks": chunks}, partial(_first, bench))


def _later(bench: Bench, cache: list[Any], op: str, row: Row) -> None:
    if not cache:
        cache.append(bench.persist(row["chunks"]))
    (x,) = cache
    ours = partial(bench.compute, getattr(gr, op), x)
    ours()  # handles are made, kernels compile
    row["tasks"] = gr.plan(x, op).tasks
    row["later"], value = median_seconds(ours, bench.repeats)
    if bench.with_stock and (op == "sum" or x.npartitions == bench.reference):
        _time_stock(row, partial(bench.compute, getattr(da, op), x), value, bench.repeats)


def _first(bench: Bench, row: Row) -> None:
    times = []
    for _ in range(FIRST_REPEATS):
        x = bench.persist(row["chunks"])
        times.append(seconds(partial(bench.compute, gr.sum, x))[0])
        del x
    row["later"] = statistics.median(times)
    of_later = [r for r in bench.rows if (r["kind"], r["case"], r["chunks"]) == ("persisted", "sum", row["chunks"])]
    row["stock"] = of_later[0].get("stock") if of_later else None


def lazy(bench: Bench, chunks: int) -> None:
    """Reductions of chunks that are made for them, and the device memory that this takes."""
    x = bench.array(chunks)

    for name, chain in zip(LAZY, (x, (x - np.float32(0.5)) ** 2), strict=True):
        bench.case({"case": name, "kind": "lazy", "chunks": chunks}, partial(_chain, bench, chain, x.nbytes / chunks))


def _chain(bench: Bench, chain: Any, chunk_bytes: float, row: Row) -> None:
    ours = partial(bench.compute, gr.sum, chain)
    row["tasks"] = gr.plan(chain, "sum").tasks
    ours()
    with memory.peak(bench.client, bench.gpus > 0, row, chunk_bytes):
        ours()
    row["later"], value = median_seconds(ours, bench.repeats, 3 * ENOUGH)
    if bench.with_stock:
        _time_stock(row, partial(bench.compute, da.sum, chain), value, bench.repeats)


def _time_stock(row: Row, stock: Callable[[], Any], ours: Any, repeats: int) -> None:
    """Stock dask's time, and whether the results agree: extremes exactly, the others as float32 sums can."""
    stock()  # kernels compile, as they have for ours
    row["stock"], value = median_seconds(stock, repeats, ENOUGH)
    row["checked"] = bool(np.isclose(float(value), float(ours), rtol=0 if row["case"] in EXACT else 1e-4, atol=0))


def both(bench: Bench, chunks: int) -> None:
    """Reductions of so many chunks, persisted and lazy."""
    persisted(bench, chunks)
    if chunks <= MOST_LAZY:
        lazy(bench, chunks)


@dataclass(frozen=True)
class Suite:
    """What is measured of each number of chunks; on GPUs of 128 a worker too, but for a suite ``of_one_size``."""

    what: str
    cases: Callable[[Bench, int], None]
    with_local_cupy: bool = False
    counts: tuple[int, ...] = CHUNKS
    of_one_size: bool = False
    peers: Mapping[str, str] = field(default_factory=dict)  # beside dask: their distributions


REDUCTIONS = Suite("reductions", both, with_local_cupy=True)


def _which(run: Result) -> tuple[int, int, str]:
    """What tells a run from others of the same suite."""
    return run["gpus"], run["workers"], run.get("protocol", "tcp")


def run(
    suite: Suite,
    gpus: int,
    workers: int,
    mib: float,
    counts: Iterable[int] | None,
    repeats: int,
    with_stock: bool,
    path: Path,
    budget: float,
    protocol: str | None = None,
) -> Result:
    """Measure every case on one cluster, the JSON written after each; ``mib`` are of one worker's data, and workers
    talk by a protocol, by default that of :func:`gpureduce_dask.cluster.start`.

    The result joins those of other numbers of GPUs, and of other protocols, that the JSON holds already. What has not
    begun after ``budget`` seconds is left out.
    """
    begin = time.monotonic()
    result: Result = json.loads(path.read_text()) if path.exists() else {"what": suite.what, "runs": []}
    workers = gpus or workers
    mine: Result = {"date": time.strftime("%Y-%m-%d"), "gpus": gpus, "workers": workers, "rows": []}
    mine |= {"processor": processor(), "dask": version("dask"), "repeats": repeats}
    if with_stock and suite.peers:
        mine["peers"] = versions(suite.peers)
    mine["nbytes"] = int(mib * 2**20) * workers

    def write() -> None:
        mine["seconds"] = time.monotonic() - begin
        path.write_text(json.dumps(result, indent=1))

    progress(
        f"{suite.what}: starting {workers} {'workers, one a GPU' if gpus else 'NumPy workers'}; {budget:g} s at most"
    )
    with cluster(gpus, workers, protocol) as client:
        mine["protocol"] = client.scheduler.address.partition(":")[0]
        others = [r for r in result["runs"] if _which(r) != _which(mine)]
        result["runs"] = sorted([*others, mine], key=_which)
        mine["round_trip"] = round_trip(client)
        if gpus:
            mine["device"] = next(iter(gr.warm(client, ops=()).values()))["gpu"]
            mine["cupy"] = client.submit(cupy_version, pure=False).result(timeout=PATIENCE)
            try:
                mine |= client.submit(rates, pure=False).result(timeout=PATIENCE)
            except Exception as error:  # the cases are worth their time without it
                mine["R_error"] = f"{type(error).__name__}: {error}"[:300]
        with_local_cupy = suite.with_local_cupy and with_stock and gpus > 0
        until = begin + budget - local_cupy.SECONDS * with_local_cupy
        bench = Bench(client, gpus, workers, mine["nbytes"], repeats, with_stock, until, write, mine["rows"])
        wanted = set(counts or suite.counts) | ({bench.reference} if gpus and not suite.of_one_size else set())
        for chunks in sorted(wanted, key=lambda n: (abs(n - bench.reference), n)):  # what matters most comes first
            suite.cases(bench, chunks)
    if with_local_cupy:
        mine["local_cupy"] = local_cupy.run(gpus, until=begin + budget)
    write()
    return mine
