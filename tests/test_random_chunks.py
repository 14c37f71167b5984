"""Random chunks of a GPU, with NumPy in CuPy's place: what is drawn, that results are checked, and what is told."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from itertools import islice
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gpureduce_dask import chunk
from gpureduce_dask.operators.table import OPERATORS
from gpureduce_dask.tools import cli
from gpureduce_dask.tools.bench import ceilings, command, random_chunks, random_draws, random_report, reference, timing
from gpureduce_dask.tools.bench.random_chunks import prepare
from gpureduce_dask.tools.bench.random_draws import BATCH, CHUNKS, GROUPS, KINDS, REDUCTIONS, SCANS, draws

MIB = 1 / 256
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class Stand(ModuleType):
    """NumPy, and of CuPy's own what the judge asks for."""

    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0, attributes={"L2CacheSize": 4096}, mem_info=(0, 1 << 40)),
        runtime=SimpleNamespace(getDeviceProperties=lambda _: {"name": b"no GPU"}, getDeviceCount=lambda: 1),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
    )

    @staticmethod
    def get_default_memory_pool():
        return SimpleNamespace(free_all_blocks=lambda: None, total_bytes=lambda: 0)

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.fixture(autouse=True)
def stand(monkeypatch):
    """Times are those of the clock, and the ceiling is a gigabyte a second."""
    monkeypatch.setitem(sys.modules, "cupy", Stand("cupy"))
    monkeypatch.setattr(random_chunks, "device_seconds", lambda call, *_, **__: max(timing.seconds(call)[0], 1e-9))
    monkeypatch.setattr(ceilings, "rate", lambda kind, nbytes, count: 1e9)
    random_chunks._ceiling.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_the_hosts_results_are_right(kind, seed):
    for draw in islice(draws(seed, [MIB / (CHUNKS if kind == BATCH else 1)], [kind]), 60):
        job = prepare(draw, 1)
        assert job.is_right(job.calls[0]()), draw


def spoilt(found):
    """The largest result is another: by 3 % where it is a float."""
    wrong = found.copy()
    values = wrong.reshape(-1)
    at = np.argmax(np.abs(np.nan_to_num(values, posinf=0, neginf=0)))
    if values.dtype.kind in "biu":
        values[at] = ~values[at]
    else:
        values[at] = values[at] + values[at] / 33 if values[at] else reference._precision(values.dtype)[0] ** -4
    return wrong


@pytest.mark.parametrize("kind", [REDUCTIONS, SCANS, BATCH])
def test_one_wrong_result_is_found(kind, monkeypatch):
    seen, finalise = set(), chunk.finalise
    for draw in islice(draws(9, [MIB / (CHUNKS if kind == BATCH else 1)], [kind]), 120):
        monkeypatch.setattr(chunk, "finalise", finalise)
        job = prepare(draw, 1)
        found = job.calls[0]()
        answer = finalise(found, OPERATORS[draw.op].bind(random_draws.dtype_of(draw.dtype))) if kind == BATCH else found
        wrong = spoilt(answer)
        if draw.op in ("skew", "kurtosis") or np.array_equal(answer, wrong, equal_nan=answer.dtype.kind in "fc"):
            continue  # of few elements nearly alike nothing is known; NaN and infinity stay what they are
        monkeypatch.setattr(chunk, "finalise", lambda partial, bound, wrong=wrong: wrong)
        assert not job.is_right(wrong), draw
        seen.add(draw.op)
    assert len(seen) > 12


def test_a_kernel_that_forgets_an_element_is_found():
    for op, dtype in (("sum", "float32"), ("nanmean", "float64"), ("count_nonzero", "bool"), ("prod", "float32")):
        draw = replace(next(draws(0, [1], [REDUCTIONS])), op=op, dtype=dtype, gaps=False)
        draw = replace(draw, base=(200_003,), cuts=((None, None, None),), order=(0,), axes=(0,), spread=None)
        (x,) = prepare(draw, 1).arrays[0]
        bound = OPERATORS[op].bind(x.dtype)
        at = int(np.argmax(x)) if op == "count_nonzero" else 70_000
        wanted = reference.reduced(op, x, (0,), bound.result)
        assert reference.is_near(chunk.results((x,), bound, (0,))[0], wanted)
        forgetful = chunk.results((np.delete(x, at),), bound, (0,))[0]
        if op == "prod":
            assert x[at] != 1
        assert not reference.is_near(forgetful, wanted), op


def test_products_of_another_order_are_right():
    """Of two orders neither is wrong, and their roundings never cancel."""
    x = np.exp(np.random.default_rng(1).uniform(-0.5, 0.5, (1 << 17, 24)))
    for each in (x, x[::-1]):
        wanted = reference.reduced("prod", each, (0,), x.dtype)
        found = chunk.results((x,), OPERATORS["prod"].bind(x.dtype), (0,))[0]
        assert reference.is_near(found, wanted)
        assert not reference.is_near(found * (1 + 1e-12), wanted)


def test_scans_that_lose_what_stood_before_are_found():
    draw = replace(next(draws(0, [1], [SCANS])), op="sum", dtype="float32", mode="")
    draw = replace(draw, base=(3, 5000), cuts=((None, None, None),) * 2, order=(0, 1), axes=(1,), spread=None)
    job = prepare(draw, 1)
    found = job.calls[0]()
    assert job.is_right(found)
    found[1, 4096:] -= found[1, 4095]
    assert not job.is_right(found)


def test_pieces_make_no_difference(monkeypatch):
    """What is cut for want of memory is folded as the whole is."""
    for kind in (REDUCTIONS, SCANS):
        for draw in islice(draws(3, [MIB], [kind]), 80):
            job = prepare(draw, 1)
            with monkeypatch.context() as patch:
                patch.setattr(reference, "MOST_ELEMENTS", 300)
                assert job.is_right(job.calls[0]()), draw


def test_every_view_dtype_and_operator_is_drawn():
    some = list(islice(draws(0, [4, 64]), 1000))
    assert some == list(islice(draws(0, [4, 64]), 1000))
    assert [(draw.kind, draw.mib) for draw in some[:4]] == [(REDUCTIONS, 4), (SCANS, 4), (REDUCTIONS, 64), (SCANS, 64)]
    assert {draw.op for draw in some} == {*random_draws.REDUCED, *random_draws.SCANNED}
    assert {draw.dtype for draw in some} == {*random_draws.DTYPES}
    assert {len(draw.base) for draw in some} == {1, 2, 3, 4, 5}
    cuts = {cut for draw in some for cut in draw.cuts}
    assert cuts == {(None, None, None), (None, None, 2), (None, None, 3), (None, None, -1), (1, -1, None)}
    assert any(draw.spread for draw in some) and any(draw.order != tuple(sorted(draw.order)) for draw in some)
    assert {draw.mode for draw in some} == {"", "exclusive", "reverse"}
    for draw in some:
        width = random_draws.widest(draw.op, draw.dtype) if draw.kind == SCANS else 0
        width = width or random_draws.dtype_of(draw.dtype).itemsize
        assert 0.75 < math.prod(draw.shape) * width / (draw.mib * 2**20) <= 1, draw
    counts = {draw.groups for draw in islice(draws(0, [64], [GROUPS]), 300)}
    assert min(counts) == 2 and max(counts) > 10_000


@pytest.mark.parametrize(
    "base, cuts, itemsize, touched",
    [
        ((4096,), [(None, None, None)], 4, 1),
        ((4096,), [(None, None, 2)], 4, 2),
        ((4096,), [(None, None, -3)], 8, 3),
        ((4096,), [(None, None, 64)], 1, 32),
        ((500, 4), [(None, None, None), (1, -1, None)], 4, 2),
        ((500, 64), [(None, None, 2), (None, None, None)], 4, 1),
    ],
)
def test_sectors_that_a_view_touches(base, cuts, itemsize, touched):
    draw = random_draws.Draw(SCANS, "sum", "float32", 1.0, base, tuple(cuts), tuple(range(len(base))), (0,))
    assert draw.touched(itemsize) == pytest.approx(touched, rel=0.01)


def case(ours, kind="scans", mib=64, **more):
    some = {
        "case": f"sum float32 ({ours})",
        "right": True,
        "ours_s": 1.0,
        "wall_s": 0.5,
        "first_call_s": 0.25,
        "check_s": 0.1,
        "kernels": ["scan_lines<Sum>"],
    }
    return {"kind": kind, "mib": mib, "ours": ours, **some, **more}


def result_of(*cases):
    return {"random": 7, "gpu": "a GPU", "date": "2026-11-25", "cases": [*cases]}


def test_what_is_told():
    scans = [case(i / 20) for i in range(1, 21)]
    slow = case(0.5, "reductions", 4, CuPy=0.6, CuPy_s=0.9, torch=0.1, torch_s=5.0, touched=2.0)
    level = case(0.6, "reductions", 4, CuPy=0.61, CuPy_s=0.97)
    text = random_report.summary(result_of(*scans, slow, level))
    assert text.startswith("a GPU, 2026-11-25, seed 7: 22 cases, 0 wrong, 0 failed, 1 slower than a peer\n")
    assert "| scans, 64 | 20 | 0.55 | 0.15 | 0.05 | 0.55, 0.15, 0.05 |  |  |" in text
    assert "| reductions, 4 | 2 | 0.60 | 0.50 | 0.50 | 1.00, 0.60, 0.60 | 2, 0.61 | 1, 0.10 |" in text
    assert "seconds: 11, of them first calls 6 and checks 2\n" in text
    worst = text.partition("the worst 10:")[2]
    assert worst.count("scan_lines<Sum>") == 10 and worst.splitlines()[1].startswith("  0.050  64 MiB scans: sum")
    assert "  1.11 times a peer's time: 0.500  CuPy 0.600  torch 0.100  4 MiB" in text
    assert random_report.above([0.2, 0.9]) == [1.0, 1.0, 0.5, 0.0]
    assert random_report.is_clean(result_of(*scans))
    wrong, failed = case(0.9, right=False), {"case": "max", "error": "MemoryError: none left"}
    for bad, words in ((wrong, "WRONG: sum float32 (0.9)"), (failed, "FAILED: max: MemoryError: none left")):
        assert not random_report.is_clean(result_of(*scans, bad)) and words in random_report.summary(
            result_of(*scans, bad)
        )
    assert "0 cases" in random_report.summary(result_of())


@pytest.mark.parametrize("kind", ["reductions", "scans", "groups", "batch", ""])
def test_a_run_from_the_command_line(kind, tmp_path, capsys, monkeypatch):
    """All but the clock of a GPU: cases are drawn, checked, written as they come, told and plotted."""
    monkeypatch.setattr(random_draws, "DTYPES", ["float32", "int16", "complex64"])
    monkeypatch.setattr(random_chunks.device_reduce, "reduce", None)  # CuPy's arrays alone are taken there
    path, picture = tmp_path / "random.json", tmp_path / "random.png"
    arguments = ["bench", "random", "--seed", "5", "--count", "6", "--mib", "0.004,0.008", "--compilers", "0"]
    arguments += [f"--{kind}"] if kind else []
    assert cli.main([*arguments, "--json", str(path), "--plot", str(picture)]) == 0
    result = json.loads(path.read_text())
    assert result["random"] == 5 and result["gpu"] == "no GPU" and len(result["cases"]) == 6
    for found in result["cases"]:
        assert "error" not in found and found["right"] and found["ours"] > 0, found
        assert found["ceiling"] == pytest.approx(1e9)
        assert found["kind"] in ([kind] if kind else ["reductions", "scans"]) and found["mib"] in (0.004, 0.008)
        assert found["read"] > 0 and found["written"] > 0 and found["first_call_s"] > 0
    assert picture.stat().st_size > 1000
    printed = capsys.readouterr().out
    assert printed.count(" MiB ") >= 12 and "seed 5: 6 cases, 0 wrong, 0 failed" in printed
    assert cli.main(["bench", "report", "--json", str(path)]) == 0
    assert capsys.readouterr().out == printed[printed.index("no GPU, 20") :]
    assert cli.main([*arguments, "--json", str(path), "--seconds", "0"]) == 0
    assert json.loads(path.read_text())["cases"] == []


def test_a_wrong_run_ends_with_a_status(tmp_path, monkeypatch, capsys):
    """The chunk protocol gives one wrong answer, which the command says; another fails, and the rest go on."""
    results, calls = chunk.results, []

    def broken(chunks, bound, axes):
        calls.append(bound.name)
        if len(set(calls)) == 2 and calls.count(bound.name) == 1:
            raise MemoryError("none left")
        found = results(chunks, bound, axes)
        return spoilt(found) if len(calls) == 1 else found

    monkeypatch.setattr(chunk, "results", broken)
    monkeypatch.setattr(random_draws, "DTYPES", ["int32"])
    arguments = ["bench", "random", "--seed", "1", "--count", "4", "--mib", "0.004", "--compilers", "0", "--reductions"]
    assert cli.main([*arguments, "--json", str(tmp_path / "random.json")]) == 1
    printed = capsys.readouterr().out
    assert "4 cases, 1 wrong, 1 failed" in printed and "none left" in printed and printed.count("WRONG: ") == 1


def test_without_a_gpu_calls_are_drawn(tmp_path, monkeypatch, capsys):
    arguments = ["bench", "random", "--seed", "1", "--count", "2", "--mib", "0.1", "--json", str(tmp_path / "a.json")]
    assert cli.main([*arguments, "--numpy"]) == 0 and "seed 1, " in capsys.readouterr().out
    monkeypatch.setattr(command, "_has_gpu", lambda: False)
    assert cli.main(arguments) == 0 and "2 calls" in capsys.readouterr().out
    assert cli.main([*arguments, "--mib", "1,2"]) == 1 and "one size" in capsys.readouterr().err


def test_buffers_take_turns():
    found = []
    rotation = timing.Rotation([lambda i=i: found.append(i) or i for i in range(3)])
    for _ in range(7):
        rotation()
    assert found == [0, 1, 2, 0, 1, 2, 0] and [*rotation.results] == [2, 0]
    assert timing.buffers(1000) == 13 and timing.buffers(1 << 20) == 1


def test_slow_peers_are_timed_on_a_part(monkeypatch):
    calls, x = [], np.zeros((64, 1 << 20), "u1")
    monkeypatch.setattr(random_chunks, "device_seconds", lambda call, *_, **__: (call(), 1.0)[1])
    seconds = random_chunks._peer_seconds(lambda xs: [lambda: calls.append(xs[0].shape)], [[x], [x]], 1 << 20)
    assert seconds == 32.0 and calls == [(64, 1 << 15)]
    monkeypatch.setattr(random_chunks, "device_seconds", lambda call, *_, **__: (call(), 1 / 16)[1])
    assert random_chunks._peer_seconds(lambda xs: [lambda: calls.append(xs[0].shape)], [[x], [x]], 1 << 20) < 1
    assert calls[1:] == [(64, 1 << 15), x.shape]
    assert random_chunks._peer_seconds(lambda xs: [None], [[x]], 1 << 20) is None


def test_the_ceiling_lies_between_those_that_are_measured(monkeypatch):
    """Of a GPU that takes 3 us to begin, and a picosecond a byte."""
    arguments = []
    monkeypatch.setattr(ceilings, "rate", lambda kind, n, count: arguments.append(n) or n / (3e-6 + n * 1e-12))
    for nbytes in (5_000_000, 5_100_000, 70_000_001):
        assert random_chunks.ceiling("R", nbytes) == pytest.approx(nbytes / (3e-6 + nbytes * 1e-12))
    assert len(arguments) == 4 and all(n % 64 == 0 for n in arguments)


def test_compiling_ahead_says_nothing_of_what_fails(monkeypatch):
    """The draw is run, its check on a small part, and what goes wrong is left to the measurement."""
    called, checked = [], []
    monkeypatch.setattr(random_chunks, "is_near", lambda ours, wanted: checked.append(ours.shape))
    for kind in KINDS:
        draw = next(draws(4, [MIB], [kind]))
        job = prepare(draw, 1)
        fake = replace(job, calls=[lambda: called.append(1)], peers={})
        monkeypatch.setattr(random_chunks, "prepare", lambda draw, count, fake=fake: fake)
        random_chunks.compile_ahead(draw, True)
        monkeypatch.setattr(random_chunks, "prepare", lambda draw, count: 1 / 0)
        random_chunks.compile_ahead(draw, True)
        monkeypatch.setattr(random_chunks, "prepare", prepare)
    assert len(called) == len(checked) == len(KINDS)


def test_one_case_again(tmp_path, capsys):
    arguments = ["bench", "random", "--seed", "5", "--count", "6", "--mib", "0.004", "--compilers", "0", "--reductions"]
    arguments += ["--json", str(tmp_path / "random.json")]
    assert cli.main([*arguments, "--only", "kurtosis", "--no-peers"]) == 0
    (found,) = json.loads((tmp_path / "random.json").read_text())["cases"]
    assert found["op"] == "kurtosis" and "1 cases" in capsys.readouterr().out


def test_a_gpu_that_is_lost_ends_the_run(tmp_path, monkeypatch, capsys):
    """After some errors nothing runs on a GPU any more."""
    lost = []
    monkeypatch.setattr(Stand.cuda, "get_current_stream", lambda: SimpleNamespace(synchronize=lambda: lost and 1 / 0))
    monkeypatch.setattr(random_chunks, "measure", lambda draw, with_peers: lost.append(1) or 1 / 0)
    arguments = ["bench", "random", "--seed", "5", "--count", "6", "--mib", "0.004", "--compilers", "0"]
    assert cli.main([*arguments, "--json", str(tmp_path / "random.json")]) == 1
    assert "1 cases, 0 wrong, 1 failed" in capsys.readouterr().out


@pytest.mark.slow
def test_processes_compile_ahead(tmp_path, capsys):
    """Without a GPU each draw fails there, which stops nothing."""
    arguments = ["bench", "random", "--seed", "5", "--count", "3", "--mib", "0.004", "--compilers", "1", "--no-peers"]
    assert cli.main([*arguments, "--json", str(tmp_path / "random.json"), "--only", "float|int"]) == 0
    assert "1 processes compile ahead" in capsys.readouterr().out


def test_a_page_says_what_a_run_found():
    case = {
        "kind": SCANS,
        "mib": 4.0,
        "case": "sum f4",
        "right": True,
        "ours": 0.5,
        "ours_s": 1.0,
        "CuPy": 0.6,
        "CuPy_s": 0.5,
    }
    wrong = {**case, "case": "prod f4", "right": False, "ours": 0.25}
    result = {
        "gpu": "no GPU",
        "date": "today",
        "cupy": "14",
        "random": 7,
        "cases": [case, wrong, {"case": "any", "error": "E"}],
    }
    page = random_report.into_page("a\n<!-- bench:random -->old<!-- /bench:random -->\nb", result, "p.png")
    assert "old" not in page and page.startswith("a") and page.endswith("b")
    for text in ("3 cases, 1 called wrong, 1 failed, 2 slower", "(p.png)", "| scans, 4 | 2 | 0.50", "prod f4  WRONG"):
        assert text in page
    assert page.index("prod f4") < page.index("sum f4")
