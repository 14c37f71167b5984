"""What pages and the README take from stored results: ``python docs/figures.py`` writes their tables and pictures
anew.

Tables stand between marks, ``<!-- figures:NAME -->`` and ``<!-- /figures:NAME -->``. Tests compare pages with files.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
STORED = ROOT / ".ci"
STATIC = HERE / "_static"
PAGES = ("README.md", "docs/comparison.md", "docs/reference/operators.md", "docs/start/cluster.md")

Row = dict[str, Any]

# Rows of kernels.json and scan_kernels.json that the README shows, and more of them for the comparison.
KERNELS = {
    "sum float32 (1073741824) all": "sum, one line",
    "var float32 (1073741824) all": "var, one line",
    "sum float32 (32768x32768) axis=0": "sum, axis 0",
    "argmax float32 (32768x32768) axis=1": "argmax, axis 1",
    "sum float32 (32768x32768) [:, ::2] all": "sum of x[:, ::2]",
    "nanmean float32 (32768x32768) axis=0": "nanmean, axis 0",
}
SCANS = {
    "sum float32 (1073741824) axis=0": "cumsum, one line",
    "sum float32 (32768x32768) axis=0": "cumsum, axis 0",
}
MORE_KERNELS = {
    "max float32 (1073741824) all": "max, one line",
    "sum float32 (1024x1024x1024) axis=(0,2)": "sum of a cube, axes 0 and 2",
    "sum float32 (33554432x32) axis=1": "sum, lines of 32",
    "sum uint8 (4294967296) all": "sum of uint8, one line",
}
ONE_READ = {
    "min max mean std argmax float32 (1073741824) all together": "five statistics together",
    "x*x sum float32 (1073741824) all fused": "sum of x * x",
    "where sum float32 (1073741824) all fused": "sum with a mask",
    "sum 1000 float32 (268435456) all by groups": "sum in 1,000 groups",
    "sum 1000000 float32 (268435456) all by groups": "sum in 1,000,000 groups",
}
GRID = (
    "max",
    "sum, axis 0",
    "var, axis 1",
    "argmax, axis 0",
    "nanmean of where(x > 0.5, x, nan), axis 0",
    "histogram of 100 bins",
    "cumsum, axis 0",
)
# Cases of cupynumeric.json and beside_cupynumeric.json.
CUPYNUMERIC_CASES = {
    "sum all": "sum",
    "mean all": "mean",
    "var all": "var",
    "max all": "max",
    "argmax all": "argmax",
    "sum axis 0": "sum, axis 0",
    "max axis 0": "max, axis 0",
    "var axis 0": "var, axis 0",
    "sum axis 1": "sum, axis 1",
    "argmax axis 1": "argmax, axis 1",
    "sum 1-d": "sum, one line",
    "histogram 1-d 256 bins": "histogram of 256 bins, one line",
    "bincount 1-d 1000": "bincount of 1,000, one line",
    "cumsum 1-d": "cumsum, one line",
    "cumsum axis 0": "cumsum, axis 0",
    "cumsum axis 1": "cumsum, axis 1",
}
HOST = ("sum", "max", "var", "nanvar", "argmax", "cumsum")
NUMBAGG = ("nansum", "nanmax", "nanvar", "nanargmax", "nanmean in 100 groups", "ffill")


def stored(name: str) -> Row:
    """A file of raw results."""
    found: Row = json.loads((STORED / name).read_text())
    return found


def cells(*values: object) -> str:
    return "| " + " | ".join(map(str, values)) + " |"


def table(heads: list[str], rows: list[str]) -> str:
    return "\n".join([cells(*heads), "|---" * len(heads) + "|", *rows])


def by_case(result: Row) -> dict[str, Row]:
    return {row["case"]: row for row in result["rows"]}


def faster(row: Row, peer: str) -> str:
    """How many times the peer's time is ours; nothing where it has no such call."""
    share = row.get(peer)
    if not share:
        return ""
    times = row["ours"] / share
    return f"{times:.2f}" if times < 10 else f"{times:,.0f}"


def kernel_rows(result: Row, labels: dict[str, str], peers: tuple[str, ...]) -> list[str]:
    known = by_case(result)
    return [
        cells(label, f"{known[case]['ours']:.2f}", *(faster(known[case], peer) for peer in peers))
        for case, label in labels.items()
    ]


def of(what: str, result: Row) -> str:
    return f"{result['gpu']}, {result['date']}, CuPy {result['cupy']}, chunks of {result['gib']} GiB of {what}"


def kernels() -> str:
    """The README's table of kernels."""
    reductions, scans = stored("h200/kernels.json"), stored("h200/scan_kernels.json")
    rows = kernel_rows(reductions, KERNELS, ("CuPy", "torch"))
    rows += kernel_rows(scans, SCANS, ("CuPy", "torch"))
    heads = ["one chunk, one GPU", "share of the limit", "CuPy's time by ours", "torch's time by ours"]
    note = f"{of('float32', reductions)} (scans {scans['date']}). The limit is the fastest"
    return f"{table(heads, rows)}\n\n{note}\nread, of scans the fastest copy, measured in the same run."


def trees() -> str:
    """The README's table of whole reductions: the grid on two GPUs, which talk by UCX where nothing else is said."""
    [run] = [each for each in stored("h200/grids_two.json")["runs"] if each["protocol"] == "ucx"]
    trip = run["round_trip"] * 1e3
    known = {row["case"]: row for row in run["rows"] if row["kind"] == "grid"}
    rows = []
    for case in GRID:
        row = known[case]
        ours, stock = row["later"], row["stock"]
        rows.append(cells(case, f"{ours * 1e3:.0f}", f"{stock * 1e3:.0f}", f"{stock / ours:.1f}"))
    note = (
        f"{run['gpus']} {run['device']}s by {run['protocol'].upper()}, {run['date']}, dask {run['dask']}: "
        f"{run['nbytes'] >> 30} GiB of float32 in 256 chunks\nthat are in memory, from the call to the value, "
        f"of `cumsum` until all blocks are in the workers' memory; an empty\ntask takes {trip:.0f} ms."
    )
    return f"{table(['256 chunks on a cluster', 'ours, ms', 'stock dask, ms', 'times'], rows)}\n\n{note}"


def host() -> str:
    """The README's table of NumPy chunks."""
    result = stored("epyc/host.json")
    known = {(row["op"], row["dtype"], row["axis"]): row["stock_s"] / row["ours_s"] for row in result["host"]}
    columns = [(dtype, axis) for dtype in ("float32", "float64") for axis in (0, 1)]
    rows = [cells(op, *(f"{known[op, *column]:.2f}" for column in columns)) for op in HOST]
    heads = ["stock dask's time by ours", *(f"{dtype}, axis {axis}" for dtype, axis in columns)]
    note = (
        f"{result['processor']}, {result['cores']} cores, {result['date']}, NumPy {result['numpy']}: "
        f"{result['chunks']} chunks of {result['mib']} MiB (`cumsum`: one), by threads."
    )
    return f"{table(heads, rows)}\n\n{note}"


def numbagg() -> str:
    """The comparison's table of NumPy arrays with NaN, beside numbagg."""
    result = stored("epyc/numbagg.json")
    known = {(row["op"], row["dtype"], row["axis"]): row["numbagg_s"] / row["ours_s"] for row in result["numbagg"]}
    columns = [(dtype, axis) for dtype in ("float32", "float64") for axis in (0, 1)]
    rows = [
        cells(op, *(f"{known[op, *column]:.2f}" if (op, *column) in known else "" for column in columns))
        for op in NUMBAGG
    ]
    heads = ["numbagg's time by ours", *(f"{dtype}, axis {axis}" for dtype, axis in columns)]
    note = (
        f"{result['processor']}, {result['cores']} cores, {result['date']}, numbagg {result['peer']}: "
        f"{result['chunks']} chunks of {result['mib']} MiB, one element of a hundred NaN."
    )
    return f"{table(heads, rows)}\n\n{note}"


def peers() -> str:
    """The comparison's table of kernels."""
    reductions, scans = stored("h200/kernels.json"), stored("h200/scan_kernels.json")
    names = ("CuPy", "torch", "cuda.compute")
    rows = kernel_rows(reductions, KERNELS | MORE_KERNELS, names) + kernel_rows(scans, SCANS, names)
    heads = ["one chunk, one GPU", "share of the limit", *(f"{name}'s time by ours" for name in names)]
    return f"{table(heads, rows)}\n\n{of('float32', reductions)} (scans {scans['date']})."


def cupynumeric() -> str:
    """The comparison's table of one array on one GPU, beside cuPyNumeric; no row of what ours was not timed for."""
    theirs, ours = stored("h200/cupynumeric.json"), stored("h200/beside_cupynumeric.json")
    rows = []
    for case, label in CUPYNUMERIC_CASES.items():
        for dtype in ("float32", "int32"):
            key = f"{case} {dtype}"
            mine, other = ours["rows"].get(key, {}), theirs["rows"].get(key, {})
            if "device_s" not in mine:
                continue
            times = other["seconds"] / mine["seconds"] if "seconds" in other else 0
            share = device_share(mine, ours, is_scan=case.startswith("cumsum"))
            both = (f"{other['seconds'] * 1e3:.1f}" if times else "aborts", f"{mine['seconds'] * 1e3:.1f}")
            rows.append(cells(label, dtype, *both, f"{times:.1f}" if times else "", f"{share:.2f}"))
    heads = ["4 GiB, one GPU", "dtype", "cuPyNumeric, ms", "ours, ms", "times", "GPU time of ours: share of the limit"]
    dates = " and ".join(sorted({theirs["date"], ours["date"]}))
    shape = " x ".join(f"{n:,}" for n in ours["shape"])
    note = (
        f"{ours['gpu']}, {dates}, cuPyNumeric {theirs['cupynumeric']}, CuPy {ours['cupy']}: {shape} elements, or "
        "as many in one line."
    )
    return f"{table(heads, rows)}\n\n{note}"


def device_share(row: Row, result: Row, is_scan: bool) -> float:
    """The GPU time of a call as a share of the fastest read of as many bytes, of scans of the fastest copy."""
    written = result["bytes"] // 4 * int(row["dtype"][-2:]) // 8 if is_scan else 0  # elements have four bytes
    rate: float = result["ceilings_Bps"]["C" if is_scan else "R"]
    return (result["bytes"] + written) / row["device_s"] / rate


def one_read() -> str:
    """The comparison's table of what one read answers."""
    result = stored("h200/one_read.json")
    names = ("CuPy", "torch", "JAX")
    heads = ["one chunk, one GPU", "share of the limit", *(f"{name}'s time by ours" for name in names)]
    return f"{table(heads, kernel_rows(result, ONE_READ, names))}\n\n{of('float32 (groups: 1 GiB)', result)}."


def grids() -> str:
    """The comparison's table of two NumPy workers beside stock dask and flox."""
    [run] = stored("epyc/grids.json")["runs"]
    rows = []
    for row in run["rows"]:
        ours, stock = row["later"], row["stock"]
        label = f"{row['kind']}: {row['case']}"
        rows.append(cells(label, f"{ours * 1e3:.0f}", f"{stock * 1e3:.0f}", f"{stock / ours:.1f}"))
    note = (
        f"{run['workers']} NumPy workers ({run['processor']}), {run['date']}, dask {run['dask']}: "
        f"{run['nbytes'] >> 20} MiB of float32 in 256 chunks. Means of groups are flox's in stock dask."
    )
    return f"{table(['256 chunks, two workers', 'ours, ms', 'stock dask, ms', 'times'], rows)}\n\n{note}"


def protocols() -> str:
    """The same calls on two GPUs whose workers talk by UCX and by TCP: the runs of one kind of GPU, a column each."""
    by_protocol = {run["protocol"]: run for run in stored("h200/grids_two.json")["runs"]}
    ucx, tcp = by_protocol["ucx"], by_protocol["tcp"]
    known = {(row["kind"], row["case"]): row["later"] for row in tcp["rows"]}
    rows = []
    for row in ucx["rows"]:
        ours, other = row["later"], known[row["kind"], row["case"]]
        label = row["case"] if row["kind"] == "grid" else f"{row['kind']}: {row['case']}"
        rows.append(cells(label, f"{ours * 1e3:.1f}", f"{other * 1e3:.1f}", f"{other / ours:.1f}"))
    note = (
        f"{ucx['gpus']} {ucx['device']}s, {ucx['nbytes'] >> 30} GiB of float32 in 256 chunks, medians of "
        f"{ucx['repeats']} calls; UCX on {ucx['date']}, TCP on {tcp['date']}."
    )
    return f"{table(['call', 'UCX, ms', 'TCP, ms', 'TCP by UCX'], rows)}\n\n{note}"


def operators() -> str:
    """The table of operators: names, how many arrays they read, what their state is for float32."""
    from gpureduce_dask import OPERATORS

    rows = []
    for name, row in OPERATORS.items():
        bound = row.bind(*["f4"] * row.arity)
        state = ", ".join(f"{field}: {dtype}" for field, dtype in bound.fields)
        empty = "a result" if row.empty == "identity" else "an error"
        rows.append(cells(f"`{name}`", row.arity, f"`{state}`", "yes" if row.commutative else "no", empty))
    heads = ["name", "arrays", "state of float32", "commutes", "of nothing"]
    return table(heads, rows)


TABLES = {
    "kernels": kernels,
    "trees": trees,
    "host": host,
    "numbagg": numbagg,
    "peers": peers,
    "one-read": one_read,
    "cupynumeric": cupynumeric,
    "grids": grids,
    "protocols": protocols,
    "operators": operators,
}


def page(text: str) -> str:
    """A page with its tables made anew."""
    for name, make in TABLES.items():
        begin, end = f"<!-- figures:{name} -->", f"<!-- /figures:{name} -->"
        if begin in text:
            body = f"{begin}\n{make()}\n{end}"
            text = re.sub(f"{begin}.*{end}", lambda _, body=body: body, text, flags=re.DOTALL)
    return text


def text(at: float, to: float, what: str, more: str = "") -> str:
    """A line of text of a picture."""
    return f'<text x="{at:.0f}" y="{to:.0f}" {more}>{what}</text>'


def ground(width: int, height: int, title: str, left: int, heads: list[str]) -> list[str]:
    """What a picture begins with: a light ground, its title for those who do not see it, and its headings."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#222">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
        *(text(left, 24 + 20 * i, head, 'font-size="15" font-weight="600"') for i, head in enumerate(heads)),
    ]


def chunks_picture() -> str:
    """Time of a sum against the number of chunks, ours and stock dask's, as SVG on a light ground."""
    run = next(run for run in stored("h200/trees.json")["runs"] if run["gpus"] == 1)
    rows = sorted(
        (row for row in run["rows"] if (row["kind"], row["case"]) == ("persisted", "sum")),
        key=lambda row: row["chunks"],
    )
    width, height, left, right, top, bottom = 640, 360, 64, 168, 62, 48
    low, high = math.log10(8), math.log10(1000)
    first, last = (math.log2(rows[i]["chunks"]) for i in (0, -1))

    def x(chunks: float) -> float:
        return left + (width - left - right) * (math.log2(chunks) - first) / (last - first)

    def y(ms: float) -> float:
        return height - bottom - (height - top - bottom) * (math.log10(ms) - low) / (high - low)

    caption = f"sum of {run['nbytes'] >> 30} GiB of float32, one {run['device']}, {run['date']}"
    heads = [f"Milliseconds of a {caption},", "cut into more and more chunks"]
    parts = ground(width, height, f"Milliseconds of a {caption}, against the number of chunks", left - 48, heads)
    for ms in (10, 100, 1000):
        parts.append(f'<path d="M{left} {y(ms):.1f}H{width - right}" stroke="#ddd"/>')
        parts.append(text(left - 8, y(ms) + 4, f"{ms:,}", 'text-anchor="end"'))
    for row in rows:
        parts.append(text(x(row["chunks"]), height - bottom + 20, str(row["chunks"]), 'text-anchor="middle"'))
    parts.append(text((left + width - right) / 2, height - 8, "chunks", 'text-anchor="middle"'))
    trip = run["round_trip"] * 1e3
    parts.append(f'<path d="M{left} {y(trip):.1f}H{width - right}" stroke="#666" stroke-dasharray="2 4"/>')
    parts.append(text(width - right + 10, y(trip) + 8, f"an empty task, {trip:.0f} ms", 'fill="#555"'))
    for key, label, colour, dash in (
        ("stock", "stock dask", "#b3400f", "7 4"),
        ("later", "this package", "#146c43", ""),
    ):
        points = [(x(row["chunks"]), y(row[key] * 1e3)) for row in rows]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/>'
        )
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour}"/>' for a, b in points]
        end = f"{label}, {rows[-1][key] * 1e3:.0f} ms"
        parts.append(text(points[-1][0] + 10, points[-1][1] + (4 if key == "stock" else -4), end, f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>", ""])


def host_picture() -> str:
    """How many times as long stock dask takes for NumPy chunks: a row for each operator, a mark for each dtype and
    axis, as SVG on a light ground."""
    result = stored("epyc/host.json")
    known: dict[str, dict[tuple[str, int], float]] = {}
    for row in result["host"]:
        if row["axis"] is not None and ":" not in row["op"]:
            known.setdefault(row["op"], {})[row["dtype"], row["axis"]] = row["stock_s"] / row["ours_s"]
    width, left, right, top, step = 640, 96, 24, 96, 24
    height = top + step * len(known) + 44
    low, high = math.log2(0.8), math.log2(12.5)

    def x(times: float) -> float:
        return left + (width - left - right) * (math.log2(times) - low) / (high - low)

    caption = f"{result['processor']}, {result['cores']} cores, {result['date']}"
    heads = ["Stock dask's time by ours, NumPy chunks in memory", caption]
    parts = ground(width, height, f"{heads[0]}: {caption}", 16, heads)
    at = 16.0
    for dtype, axis in (("float32", 0), ("float32", 1), ("float64", 0), ("float64", 1)):
        parts += [mark(at + 6, top - 32, dtype, axis), text(at + 18, top - 28, f"{dtype}, axis {axis}")]
        at += 132
    bottom = top + step * len(known)
    for times in (1, 2, 4, 8):
        stroke = "#666" if times == 1 else "#ddd"
        parts.append(f'<path d="M{x(times):.1f} {top - 8}V{bottom}" stroke="{stroke}"/>')
        label = "as fast" if times == 1 else f"{times} times"
        parts.append(text(x(times), bottom + 20, label, 'text-anchor="middle"'))
    for number, (op, values) in enumerate(known.items()):
        y = top + step * number + 8
        parts.append(text(left - 12, y + 4, op, 'text-anchor="end"'))
        parts += [mark(x(times), y, dtype, axis) for (dtype, axis), times in values.items()]
    return "\n".join([*parts, "</svg>", ""])


def mark(at: float, to: float, dtype: str, axis: int) -> str:
    """A circle for axis 0, a square for axis 1; filled for float32."""
    colour = ("#146c43", "#b3400f")[axis]
    look = f'fill="{colour if dtype == "float32" else "#fff"}" stroke="{colour}" stroke-width="2"'
    if axis:
        return f'<rect x="{at - 4.5:.1f}" y="{to - 4.5:.1f}" width="9" height="9" {look}/>'
    return f'<circle cx="{at:.1f}" cy="{to:.1f}" r="5" {look}/>'


PICTURES = {"chunks.svg": chunks_picture, "numpy.svg": host_picture}


# The command line that an example runs with in the gallery: less work than by default.
SMALLER = {
    "drawdown.py": ["--steps", "2**22"],
    "larger_than_memory.py": ["--threads", "--gib", "1"],
    "primes.py": ["--upto", "6"],
}


def arguments(gallery_conf: Any, script_vars: Row) -> list[str]:
    """For sphinx-gallery: of the script that it runs now."""
    return SMALLER.get(Path(script_vars["src_file"]).name, [])


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (STATIC / name).write_text(draw())
    for name in PAGES:
        path = ROOT / name
        path.write_text(page(path.read_text()))
