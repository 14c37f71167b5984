"""The data of the workflows: temperature fields written as zarr, netCDF and HDF5, and opened as people open them.

Stored chunks that are read, and when, are written to a log, which tells how often each was read and how many at a time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import xarray as xr
import zarr
from dask.delayed import delayed
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core.indexing import IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter
from zarr.storage import LocalStore, WrapperStore

START = np.datetime64("2000-01-01", "ns")
HOUR = np.timedelta64(3_600_000_000_000, "ns")
GAPS = 0.02  # share of the temperatures that are missing
SEASONS = 365.25 * 24  # hours of a year


@dataclass(frozen=True)
class Size:
    """How much is written: years of days and days of hours, on a grid, and how much of it lies in a chunk."""

    years: int
    days_of_hours: int
    grid: tuple[int, int]
    daily_chunks: tuple[int, int, int]
    hourly_steps: int  # along time; each chunk has the whole of the smaller, hourly grid
    hourly_grid: tuple[int, int]


FULL = Size(10, 20 * 365 + 5, (90, 180), (200, 45, 90), 720, (16, 24))
SMALL = Size(2, 20, (6, 8), (150, 3, 8), 120, (3, 4))


def write(folder: Path, size: Size) -> None:
    """Write all stores, unless a folder has them already."""
    done = folder / "done"
    if done.exists() and done.read_text() == repr(size):
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    days = START + np.arange(size.years * 1461 // 4) * 24 * HOUR
    hours = START + np.arange(size.days_of_hours * 24) * HOUR
    daily = _dataset(rng, days, size.grid)
    hourly = _dataset(rng, hours, size.hourly_grid)
    _to_zarr(daily, folder / "daily.zarr", size.daily_chunks)
    _to_zarr(daily, folder / "maps.zarr", (len(days), 1, size.grid[1]))  # whole series, split in space
    _to_zarr(hourly, folder / "hourly.zarr", (size.hourly_steps, *size.hourly_grid))
    encoding = {name: {"chunksizes": size.daily_chunks, "zlib": False} for name in daily.data_vars}
    daily.to_netcdf(folder / "daily.nc", engine="h5netcdf", encoding=encoding)
    for year, part in daily.groupby("time.year"):
        part.to_netcdf(folder / f"year-{year}.nc", engine="h5netcdf")
    done.write_text(repr(size))


def _dataset(rng: Any, when: Any, grid: tuple[int, int]) -> xr.Dataset:
    lat = np.linspace(-88, 88, grid[0])
    lon = np.arange(grid[1]) * (360 / grid[1])
    hours = (when - START) / HOUR
    season = 10 * np.sin(2 * np.pi * hours / SEASONS) + 3 * np.sin(2 * np.pi * hours / 24)
    shape = (len(when), *grid)
    base = 288 - 0.3 * np.abs(lat)[:, None] + np.zeros(grid[1])
    temperature = rng.standard_normal(shape, "f4") * 4 + (season[:, None, None] + base).astype("f4")
    temperature[rng.random(shape, "f4") < GAPS] = np.nan
    wind = rng.gamma(2, 3, shape).astype("f4") + temperature.clip(0) * np.float32(0.01)
    np.nan_to_num(wind, copy=False, nan=5)
    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "temperature": (dims, temperature, {"units": "K", "long_name": "air temperature"}),
            "wind": (dims, wind, {"units": "m s-1"}),
        },
        {
            "time": ("time", when, {"axis": "T"}),
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
            "height": ((), 2.0, {"units": "m"}),
            "region": (("lat", "lon"), (np.arange(np.prod(grid)) // 7 % 5).reshape(grid)),
            "zone": ("lat", (np.abs(lat) // 30).astype("i4")),
        },
        {"title": "made for measuring"},
    )


def _to_zarr(data: xr.Dataset, path: Path, chunks: tuple[int, int, int]) -> None:
    fit = tuple(min(c, n) for c, n in zip(chunks, data.temperature.shape, strict=True))
    encoding: dict[Any, Any] = {name: {"chunks": fit, "compressors": None} for name in data.data_vars}
    data.to_zarr(path, mode="w", encoding=encoding, consolidated=False, zarr_format=3)


class Log:
    """Notes of what was read, one file a process: its name, when that began and ended, and the thread that asked."""

    def __init__(self, folder: Path, latency: float = 0) -> None:
        self.folder, self.latency = folder, latency
        folder.mkdir(parents=True, exist_ok=True)

    def note(self, name: str, begin: float) -> None:
        """That what has this name was read, from ``begin`` by ``time.monotonic`` until now."""
        with open(self.folder / str(os.getpid()), "a") as file:
            file.write(f"{name} {begin} {time.monotonic()} {os.getpid()}\n")

    def clear(self) -> None:
        for path in self.folder.iterdir():
            path.write_text("")

    def read(self) -> Reads:
        """What was read since the log was cleared."""
        rows = [line.split() for path in self.folder.iterdir() for line in path.read_text().splitlines()]
        turns = sorted((float(at), step) for row in rows for at, step in ((row[1], 1), (row[2], -1)))
        now = most = 0
        for _, step in turns:
            now += step
            most = max(most, now)
        times = Counter(row[0] for row in rows)
        return Reads(len(times), sum(times.values()), most, len({row[3] for row in rows}))


@dataclass(frozen=True)
class Reads:
    """Stored chunks that were read, how many reads that took, how many were under way at a time, in how many
    processes."""

    chunks: int
    reads: int
    at_a_time: int
    processes: int


class LoggedStore(WrapperStore[Any]):
    """A zarr store that logs the chunks it reads, and may take as long for each as a store that is far away."""

    def __init__(self, store: Any, log: Log) -> None:
        super().__init__(store)
        self.log = log

    def _with_store(self, store: Any) -> LoggedStore:
        return LoggedStore(store, self.log)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if "/c/" not in key or not key.startswith(("temperature", "wind")):
            return await super().get(key, prototype, byte_range)
        begin = time.monotonic()
        if self.log.latency:
            await asyncio.sleep(self.log.latency)
        found = await super().get(key, prototype, byte_range)
        self.log.note(key, begin)
        return found


class LoggedArray:
    """What ``da.from_array`` takes: an array in a file, opened in the process that reads it."""

    def __init__(self, open_file: Callable[[], Any], log: Log) -> None:
        self.open_file, self.log = open_file, log
        array = open_file()
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, index: Any) -> Any:
        begin = time.monotonic()
        if self.log.latency:
            time.sleep(self.log.latency)
        found = self.open_file()[index]
        if found.size:  # dask looks at what an empty slice is of
            self.log.note(repr(index).replace(" ", ""), begin)
        return found


class LoggedNetCDF(BackendEntrypoint):
    """Opens a netCDF file as xarray does, and logs what is read of it."""

    def open_dataset(self, filename_or_obj: Any, *, log: Log, **options: Any) -> xr.Dataset:  # type: ignore[override]
        """The file's variables, of which those with three axes are logged."""
        found = xr.open_dataset(filename_or_obj, engine="h5netcdf", **options)
        for name, variable in found.data_vars.items():
            if variable.ndim == 3:
                logged = LazilyIndexedArray(_LoggedVariable(variable.variable, f"{filename_or_obj}:{name}", log))
                found[name] = xr.Variable(variable.dims, logged, variable.attrs, variable.encoding)
        return found


class _LoggedVariable(BackendArray):
    """A variable that is read when it is indexed."""

    def __init__(self, variable: xr.Variable, name: str, log: Log) -> None:
        self.variable, self.name, self.log = variable, name, log
        self.shape, self.dtype = variable.shape, variable.dtype

    def __getitem__(self, index: Any) -> Any:
        return explicit_indexing_adapter(index, self.shape, IndexingSupport.OUTER, self._read)

    def _read(self, index: Any) -> Any:
        begin = time.monotonic()
        if self.log.latency:
            time.sleep(self.log.latency)
        found = self.variable[index].values
        self.log.note(f"{self.name}{index!r}".replace(" ", ""), begin)
        return found


def _hdf5(path: Path) -> Any:
    return h5py.File(path, "r")["temperature"]


def _zarr(path: Path) -> Any:
    return zarr.open_array(str(path), mode="r")


# The ways in which people open an array.
WAYS = (
    "open_zarr",
    "open_dataset, chunks={}",
    "open_dataset, larger chunks",
    "open_dataset of netCDF",
    "open_mfdataset",
    "da.from_zarr",
    "da.from_zarr, inlined",
    "da.from_array",
    "da.from_array, inlined",
    "da.from_array of h5py",
    "da.from_delayed",
    "map_blocks",
)


class Opener:
    """Opens what :func:`write` wrote, in each of the ways that people have."""

    def __init__(self, folder: Path, log: Log, size: Size) -> None:
        self.folder, self.log, self.size = folder, log, size
        self.ways: dict[str, Callable[[], Any]] = dict(zip(WAYS, self._openers(), strict=True))

    def _openers(self) -> Iterator[Callable[[], Any]]:
        """Of the temperature as a dask array, in the order of :data:`WAYS`."""
        yield lambda: self.zarr("daily.zarr").temperature.data
        yield lambda: self.dataset("daily.zarr", {}).temperature.data
        yield lambda: self.dataset("daily.zarr", self.larger).temperature.data
        yield lambda: self.netcdf().temperature.data
        yield lambda: self.years().temperature.data
        yield lambda: da.from_zarr(self._stored())
        yield lambda: da.from_zarr(self._stored(), inline_array=True)
        yield lambda: self._from(partial(_zarr, self._path), False)
        yield lambda: self._from(partial(_zarr, self._path), True)
        yield lambda: self._from(partial(_hdf5, self.folder / "daily.nc"), False)
        yield self._delayed
        yield lambda: da.from_zarr(self._stored()).map_blocks(np.nan_to_num, dtype="f4")

    @property
    def _path(self) -> Path:
        return self.folder / "daily.zarr" / "temperature"

    @property
    def larger(self) -> dict[str, int]:
        """Chunks of twice as many days as stored ones."""
        return {"time": 2 * self.size.daily_chunks[0]}

    def _store(self, name: str) -> LoggedStore:
        return LoggedStore(LocalStore(self.folder / name, read_only=True), self.log)

    def _stored(self) -> Any:
        return zarr.open_group(self._store("daily.zarr"), mode="r")["temperature"]

    def zarr(self, name: str) -> Any:
        """As ``xr.open_zarr`` does."""
        found = xr.open_zarr(self._store(name), consolidated=False)
        return found.assign_coords({at: found[at].load() for at in ("region", "zone", "height")})

    def dataset(self, name: str, chunks: dict[str, int]) -> Any:
        """As ``xr.open_dataset`` does."""
        store: Any = self._store(name)
        return xr.open_dataset(store, engine="zarr", chunks=chunks, consolidated=False)

    def netcdf(self) -> Any:
        """One file."""
        chunks = {"time": self.size.daily_chunks[0]}
        return xr.open_dataset(self.folder / "daily.nc", engine=LoggedNetCDF, log=self.log, chunks=chunks)

    def years(self) -> Any:
        """A file a year."""
        files = sorted(map(str, self.folder.glob("year-*.nc")))
        together: dict[str, Any] = {"coords": "minimal", "compat": "override", "data_vars": "minimal"}
        return xr.open_mfdataset(files, engine=LoggedNetCDF, log=self.log, chunks={"time": 100}, **together)

    def _from(self, open_file: Callable[[], Any], inline: bool) -> Any:
        chunks = self.size.daily_chunks
        return da.from_array(LoggedArray(open_file, self.log), chunks, name=False, inline_array=inline)

    def _delayed(self) -> Any:
        array = LoggedArray(partial(_zarr, self._path), self.log)
        step, days = self.size.daily_chunks[0], array.shape[0]
        read = delayed(_read_days)
        parts = [
            da.from_delayed(read(array, at, step), (min(step, days - at), *array.shape[1:]), array.dtype)
            for at in range(0, days, step)
        ]
        return da.concatenate(parts)


def _read_days(array: LoggedArray, at: int, step: int) -> Any:
    return array[at : at + step]
