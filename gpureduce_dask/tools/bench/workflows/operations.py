"""The operations of the workflows: what people who have temperatures in files do with them on a working day.

Each is a function of the fields, which writes nothing and computes nothing: its result is a lazy array of dask or
xarray, or a tuple or a dictionary of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from dask.delayed import delayed

from .data import WAYS, Opener


@dataclass(frozen=True)
class Fields:
    """What operations work on. ``t`` and ``w`` are split in time and space, ``m`` in space alone, ``h`` in time alone;
    ``ds`` has the first two, ``year`` is of a file a year and ``nc`` of one netCDF file. ``ways`` has the temperature
    as a dask array, by how it was opened."""

    ds: Any
    m: Any
    h: Any
    nc: Any
    year: Any
    ways: Mapping[str, Any]
    folder: Path  # for what operations write
    is_on_gpu: bool = False

    @property
    def t(self) -> Any:
        return self.ds.temperature

    @property
    def w(self) -> Any:
        return self.ds.wind

    @classmethod
    def opened(cls, opener: Opener) -> Fields:
        """Lazy fields."""
        maps, hourly = opener.zarr("maps.zarr"), opener.zarr("hourly.zarr")
        nc, years = opener.netcdf(), opener.years()
        ways = {name: open_it() for name, open_it in opener.ways.items()}
        daily = opener.zarr("daily.zarr")
        return cls(daily, maps.temperature, hourly.temperature, nc.temperature, years.temperature, ways, opener.folder)

    def on_gpu(self) -> Fields:
        """The same fields with CuPy chunks, which are read on the host."""
        import cupy

        def move(x: Any) -> Any:
            return x.copy(data=x.data.map_blocks(cupy.asarray))

        ways = {name: x.map_blocks(cupy.asarray) for name, x in self.ways.items()}
        m, h, nc, year = map(move, (self.m, self.h, self.nc, self.year))
        return Fields(self.ds.map(move, keep_attrs=True), m, h, nc, year, ways, self.folder, True)

    def to_device(self, x: Any) -> Any:
        """Labelled numbers that meet the fields: in CuPy where these are, as ``as_cupy`` of cupy-xarray has it."""
        if not self.is_on_gpu:
            return x
        import cupy

        return x.copy(data=cupy.asarray(x.data))

    def on_host(self, x: Any) -> Any:
        """A result that leaves the GPU, where it lies there."""
        if not self.is_on_gpu:
            return x
        import cupy

        return x.copy(data=x.data.map_blocks(cupy.asnumpy))

    def persisted(self) -> Fields:
        """The same fields in memory."""
        ways = {name: x.persist() for name, x in self.ways.items()}
        ds, m, h, nc, year = (x.persist() for x in (self.ds, self.m, self.h, self.nc, self.year))
        return replace(self, ds=ds, m=m, h=h, nc=nc, year=year, ways=ways)


Operation = Callable[[Fields], Any]
TIME, SPACE, ALL = ["time"], ["lat", "lon"], ["time", "lat", "lon"]
SUBSETS = [list(dims) for n in (1, 2, 3) for dims in itertools.combinations(ALL, n)]


def operations() -> dict[str, Operation]:
    """All of them, by name."""
    found: dict[str, Operation] = {}
    for name in ("mean", "std", "max"):
        for dims in SUBSETS:
            found[f"t.{name}({','.join(dims)})"] = partial(_reduced, name, dims)
    for name in (
        "sum",
        "min",
        "var",
        "median",
        "prod",
        "count",
        "argmax",
        "argmin",
        "idxmax",
        "idxmin",
        "first",
        "last",
    ):
        if name in ("first", "last"):
            found[f"t.groupby(month).{name}"] = partial(_grouped, "t", "time.month", name)
        else:
            found[f"t.{name}(time)"] = partial(_reduced, name, "time")
    for key in ("time.month", "time.season", "time.dayofyear", "time.year"):
        for name in ("mean", "std", "max", "count"):
            found[f"t.groupby({key}).{name}"] = partial(_grouped, "t", key, name)
    for name in ("mean", "sum", "max"):
        found[f"t.groupby(region).{name}"] = partial(_grouped, "t", "region", name)
        found[f"t.groupby(zone).{name}"] = partial(_grouped, "t", "zone", name)
    for source, to in (("t", "MS"), ("t", "QS-DEC"), ("t", "YS"), ("t", "7D"), ("m", "MS"), ("h", "D"), ("h", "MS")):
        for name in ("mean", "max"):
            found[f"{source}.resample({to}).{name}"] = partial(_resampled, source, to, name)
    for name in ("min", "sum", "std", "first", "last", "count", "median"):
        found[f"t.resample(MS).{name}"] = partial(_resampled, "t", "MS", name)
    for way in WAYS:
        for name, axis in (("nanmean", None), ("nanstd", 0), ("nanmax", (1, 2))):
            found[f"{way}: {name}{'' if axis is None else f' {axis}'}"] = partial(_opened, way, name, axis)
    return found | CALLS


def _reduced(name: str, dims: Any, d: Fields) -> Any:
    return getattr(d.t, name)(dims)


def _opened(way: str, name: str, axis: Any, d: Fields) -> Any:
    return getattr(da, name)(d.ways[way], axis=axis)


def _grouped(source: str, key: str, name: str, d: Fields) -> Any:
    return getattr(getattr(d, source).groupby(key), name)()


def _resampled(source: str, to: str, name: str, d: Fields) -> Any:
    return getattr(getattr(d, source).resample(time=to), name)()


def _anomaly(d: Fields, key: str) -> Any:
    groups = d.t.groupby(key)
    return groups - groups.mean()


def _z_score(d: Fields) -> Any:
    groups = d.t.groupby("time.month")
    means, deviations = groups.mean(), groups.std()
    return ((groups - means).groupby("time.month") / deviations).max("time")


def _area(d: Fields) -> Any:
    return d.to_device(np.cos(np.deg2rad(d.ds.lat)))


def _edges(d: Fields) -> Any:
    return np.arange(-90, 91, 30)


def _polyfit(d: Fields) -> Any:
    return d.m.fillna(288.0).chunk(time=-1).polyfit("time", 1).polyfit_coefficients


def _trend(d: Fields) -> Any:
    """A slope a cell, by hand."""
    years = d.to_device(xr.DataArray(np.arange(d.t.sizes["time"]) / 365.25, dims="time"))
    centred = years - years.mean()
    return (d.t * centred).sum("time") / (centred**2).sum()


def _dataset_of_statistics(d: Fields) -> Any:
    return xr.Dataset({name: getattr(d.t, name)("time") for name in ("mean", "std", "min", "max")})


def _filled(d: Fields) -> Any:
    return d.t.where(d.t > 250)


def _histogram(x: Any, **options: Any) -> Any:
    return da.histogram(x.data, bins=40, range=(220.0, 330.0), **options)[0]


def _histogram2d(d: Fields) -> Any:
    t, w = d.t.data.reshape(-1), d.w.data.reshape(-1)
    return da.histogram2d(t, w, bins=(20, 10), range=((220.0, 330.0), (0.0, 40.0)))[0]


def _bincount(d: Fields) -> Any:
    return da.bincount(d.w.data.astype("i4").reshape(-1), minlength=64)


def _covariance(d: Fields) -> Any:
    return xr.cov(d.t, d.w, dim="time")


def _degree_days(d: Fields) -> Any:
    return (d.t - 283.15).clip(0).cumsum("time")


def _heat_waves(d: Fields) -> Any:
    hot = d.t > 300
    return hot.sum("time"), hot.any("time"), hot.all("time")


def _written(d: Fields) -> Any:
    """What is read back of results that were written."""
    path = d.folder / "written.zarr"
    found = {"mean": d.t.mean("time"), "std": d.t.std("time"), "largest": d.w.max("time")}
    results = xr.Dataset({name: d.on_host(each) for name, each in found.items()})
    done = results.to_zarr(path, mode="w", compute=False, consolidated=False)
    return delayed(_read_back)(path, done)


def _read_back(path: Path, done: Any) -> Any:
    return xr.open_zarr(path, consolidated=False).load()


def _stacked(d: Fields) -> Any:
    return d.t.stack(cell=("lat", "lon")).mean("cell")


# More operations, by what they are called.
CALLS: dict[str, Operation] = {
    # of a Dataset, and of several results at once
    "ds.mean(time)": lambda d: d.ds.mean("time"),
    "ds.mean(keep_attrs)": lambda d: d.ds.mean("time", keep_attrs=True),
    "ds.std": lambda d: d.ds.std(),
    "ds.max(space)": lambda d: d.ds.max(SPACE),
    "four statistics": _dataset_of_statistics,
    "mean and max together": lambda d: (d.t.mean("time"), d.t.max("time"), d.t.mean(SPACE)),
    "mean without skipna": lambda d: d.w.mean("time", skipna=False),
    "sum with min_count": lambda d: d.t.sum("time", min_count=10),
    "var with ddof": lambda d: d.t.var("time", ddof=1),
    "mean of netCDF": lambda d: d.nc.mean("time"),
    "std of netCDF": lambda d: d.nc.std(SPACE),
    "mean of a file a year": lambda d: d.year.mean("time"),
    "max of a file a year": lambda d: d.year.max(SPACE),
    "monthly of a file a year": lambda d: d.year.groupby("time.month").mean(),
    "maps.mean(time)": lambda d: d.m.mean("time"),
    "maps.std(time)": lambda d: d.m.std("time"),
    "maps.median(time)": lambda d: d.m.median("time"),
    "hourly mean": lambda d: d.h.mean("time"),
    "hourly std": lambda d: d.h.std(),
    "diurnal cycle": lambda d: d.h.groupby("time.hour").mean(),
    # anomalies
    "anomaly": lambda d: d.t - d.t.mean("time"),
    "anomaly, then std": lambda d: (d.t - d.t.mean("time")).std("time"),
    "anomaly by month": lambda d: _anomaly(d, "time.month"),
    "anomaly by day of year": lambda d: _anomaly(d, "time.dayofyear").mean(SPACE),
    "z-score": lambda d: ((d.t - d.t.mean("time")) / d.t.std("time")).max("time"),
    "z-score by month": _z_score,
    "normalised": lambda d: (d.t - d.t.min()) / (d.t.max() - d.t.min()),
    # groups
    "groupby_bins": lambda d: d.t.groupby_bins("lat", _edges(d)).mean(),
    "groupby_bins of values": lambda d: d.t.mean("time").groupby_bins("region", [-1, 1, 3, 5]).max(),
    "two keys": lambda d: d.t.groupby(["time.month", "zone"]).mean(),
    "two keys, largest": lambda d: d.t.isel(time=slice(0, 200)).groupby(["time.season", "region"]).max(),
    "groups, reduced over all": lambda d: d.t.groupby("time.month").mean(...),
    "groups, sum with min_count": lambda d: d.t.groupby("time.month").sum(min_count=5),
    "groups, mapped": lambda d: d.t.groupby("time.season").map(lambda g: g.max("time") - g.min("time")),
    "groups of a Dataset": lambda d: d.ds.groupby("time.month").mean(),
    "groups, any": lambda d: (d.t > 295).groupby("time.month").any(),
    "groups, cumsum": lambda d: d.w.groupby("time.year").cumsum(),
    "groups, quantile": lambda d: d.m.groupby("time.season").quantile(0.9),
    "season means, weighted": lambda d: (
        (d.t * d.to_device(d.t.time.dt.days_in_month)).groupby("time.season").sum("time")
    ),
    "complex groups": lambda d: (d.t.fillna(0) + 1j * d.w).groupby("time.month").mean(),
    # calendars
    "resample up": lambda d: d.t.isel(time=slice(0, 50)).resample(time="12h").ffill(),
    "resample up, nearest": lambda d: d.t.isel(time=slice(0, 50)).resample(time="8h").nearest(),
    "resample of wind": lambda d: d.w.resample(time="MS").sum(),
    "resample of a Dataset": lambda d: d.ds.resample(time="YS").mean(),
    "resample, then std": lambda d: d.h.resample(time="D").mean().std("time"),
    "dates, latest": lambda d: d.t.time.where(d.t.max(SPACE) > 300).max(),
    # weights
    "area mean": lambda d: d.t.weighted(_area(d)).mean(SPACE),
    "area sum": lambda d: d.w.weighted(_area(d)).sum(SPACE),
    "area std": lambda d: d.w.weighted(_area(d)).std(SPACE),
    "area mean over all": lambda d: d.t.weighted(_area(d)).mean(),
    "area quantile": lambda d: d.t.isel(time=slice(0, 20)).chunk(lat=-1).weighted(_area(d)).quantile(0.5, dim=["lat"]),
    "weighted by hand": lambda d: (d.t * _area(d)).sum(SPACE) / _area(d).sum(),
    # windows
    "coarsen, mean": lambda d: d.t.coarsen(lat=2, lon=2, boundary="trim").mean(),
    "coarsen, max": lambda d: d.t.coarsen(time=7, boundary="trim").max(),
    "coarsen, std": lambda d: d.t.coarsen(time=10, boundary="trim").std(),
    "rolling, mean": lambda d: d.t.rolling(time=7).mean(),
    "rolling, max": lambda d: d.m.rolling(time=5, center=True).max(),
    "rolling, sum with min_periods": lambda d: d.w.rolling(time=10, min_periods=3).sum(),
    "rolling, std": lambda d: d.m.rolling(time=5).std(),
    "rolling, then max": lambda d: d.m.rolling(time=7, center=True).mean().max("time"),
    "rolling, construct": lambda d: d.t.rolling(time=4).construct("window").mean("window"),
    "rolling, construct, max": lambda d: d.m.rolling(time=4).construct("window").max("window"),
    "rolling in space": lambda d: d.w.isel(time=slice(0, 200)).rolling(lat=3, lon=3, center=True).mean(),
    # scans
    "cumsum": lambda d: d.w.cumsum("time"),
    "cumsum with gaps": lambda d: d.t.cumsum("time"),
    "cumsum, two dimensions": lambda d: d.w.cumsum(SPACE),
    "cumprod": lambda d: (1 + d.w / 1e5).cumprod("time"),
    "cumulative, mean": lambda d: d.m.isel(time=slice(0, 60)).cumulative("time").mean(),
    "cumsum of a maximum": lambda d: d.t.max(SPACE).cumsum("time"),
    "degree days": _degree_days,
    "ffill": lambda d: d.t.ffill("time"),
    "bfill": lambda d: d.t.bfill("time"),
    "ffill with limit": lambda d: d.t.ffill("time", limit=2),
    "bfill with limit": lambda d: d.t.bfill("time", limit=3),
    "interpolate_na": lambda d: d.m.isel(time=slice(0, 60)).chunk(time=-1).interpolate_na("time"),
    "fillna with a mean": lambda d: d.t.fillna(d.t.mean("time")),
    "diff": lambda d: d.t.diff("time"),
    "diff, then largest": lambda d: abs(d.t.diff("time")).max("time"),
    "integrate": lambda d: d.w.integrate("lat"),
    "cumulative_integrate": lambda d: d.w.cumulative_integrate("lat"),
    "differentiate": lambda d: d.w.differentiate("lat"),
    "shift": lambda d: (d.t - d.t.shift(time=1)).std("time"),
    # order
    "quantile": lambda d: d.m.quantile([0.1, 0.9], "time"),
    "quantile in space": lambda d: d.t.isel(time=slice(0, 100)).chunk(lat=-1, lon=-1).quantile(0.5, SPACE),
    "rank": lambda d: d.m.isel(lat=slice(0, 3)).rank("time"),
    "median in space": lambda d: d.t.isel(time=slice(0, 100)).chunk(lat=-1, lon=-1).median(SPACE),
    "top": lambda d: da.topk(d.t.fillna(0).data, 3, axis=0),
    # relations
    "corr": lambda d: xr.corr(d.t, d.w, dim="time"),
    "corr over all": lambda d: xr.corr(d.t, d.w),
    "cov": _covariance,
    "corr with a point": lambda d: xr.corr(d.t, d.t.isel(lat=0, lon=0), dim="time"),
    "dot": lambda d: xr.dot(d.w, _area(d), dim="lat"),
    "polyfit": _polyfit,
    "trend": _trend,
    # counts
    "histogram": lambda d: _histogram(d.w),
    "histogram, weighted": lambda d: _histogram(d.t, weights=d.w.data),
    "histogram, density": lambda d: _histogram(d.w, density=True),
    "histogram2d": _histogram2d,
    "bincount": _bincount,
    "days above": lambda d: (d.t > 290).sum("time"),
    "heat waves": _heat_waves,
    "any": lambda d: (d.t > 310).any("time"),
    "any over all": lambda d: (d.t > 400).any(),
    "all": lambda d: (d.w >= 0).all("time"),
    "count in space": lambda d: d.t.count(SPACE),
    "gaps": lambda d: d.t.isnull().sum("time"),
    "gaps over all": lambda d: d.t.isnull().sum(),
    "share of gaps": lambda d: d.t.isnull().mean(SPACE),
    # choices
    "where, mean": lambda d: _filled(d).mean("time"),
    "where, count": lambda d: _filled(d).count(),
    "where of another": lambda d: d.t.where(d.w > 5).mean("time"),
    "clip": lambda d: d.t.clip(250, 310).std("time"),
    "of a place": lambda d: d.t.sel(lat=0, method="nearest").mean("time"),
    "of a region": lambda d: d.t.where(d.to_device(d.t.region == 2)).mean(SPACE),
    "of a slice": lambda d: d.t.sel(time=slice("2001-02-01", "2001-11-30")).mean("time"),
    "every second": lambda d: d.t.isel(time=slice(None, None, 2), lon=slice(1, None)).mean("time"),
    "transposed": lambda d: d.t.transpose("lon", "lat", "time").std("time"),
    "reversed": lambda d: d.t.isel(time=slice(None, None, -1)).cumsum("time"),
    "stacked": _stacked,
    "other chunks": lambda d: d.t.chunk(time=50, lat=-1).mean("time"),
    "vectorised": lambda d: xr.apply_ufunc(np.square, d.t, dask="allowed").mean("time"),
    "log mean": lambda d: np.log(d.w + 1).mean("time"),
    "vapour": lambda d: (6.11 * np.exp(17.3 * (d.t - 273.15) / (d.t - 35.9))).mean("time"),
    "concat of results": lambda d: xr.concat([d.t.isel(time=slice(i, i + 50)).mean("time") for i in (0, 50)], "part"),
    "to_zarr of results": _written,
    "concat of years": lambda d: xr.concat([d.year, d.year], "member").mean("member"),
    "expanded": lambda d: d.t.mean("time").expand_dims(member=3).sum("member"),
    "of integers": lambda d: d.t.fillna(0).astype("i4").mean("time"),
    "of integers, summed": lambda d: d.w.astype("i2").sum(),
    "of halves": lambda d: d.w.astype("f2").mean("time"),
    "float64": lambda d: d.w.astype("f8").std("time"),
    # dask's own words
    "da.nanmean": lambda d: da.nanmean(d.t.data, axis=0),
    "da.nanargmax": lambda d: da.nanargmax(d.t.fillna(0).data, axis=0),
    "da.moment": lambda d: da.reductions.moment(d.w.data, 4, axis=0),
    "da.average": lambda d: da.average(d.w.data, axis=0),
    "da.linalg.norm": lambda d: da.linalg.norm(d.w.data, axis=0),
    "da.ptp": lambda d: da.ptp(d.w.data, axis=0),
    "da.percentile": lambda d: da.percentile(d.w.data.reshape(-1), [50]).sum(),
    "np.var": lambda d: np.var(d.w.data, axis=(1, 2)),
    "np.argmax": lambda d: np.argmax(d.w.data),
    "vdot": lambda d: da.vdot(d.w.data, d.w.data),
    "tensordot": lambda d: da.tensordot(d.w.data, d.w.data, axes=((0, 1), (0, 1))),
    "x.T @ x": lambda d: d.w.data[:, 0, :].T @ d.w.data[:, 0, :],
    "da.cumsum over all": lambda d: da.nansum(d.t.data.ravel()[: d.t.shape[0]].cumsum(axis=0)),
    "argmin with ties": lambda d: d.t.data.round().argmin(axis=0),
}
