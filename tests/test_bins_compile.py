"""Kernels of groups compile for every generation of GPUs, into registers alone, and are chosen as the tuning says."""

from __future__ import annotations

import re
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from tiers import slow

pytest.importorskip("cupy", reason="its binding of NVRTC compiles")

from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import group_plans as plans
from gpureduce_dask.device import groups as device_groups
from gpureduce_dask.device import histogram
from gpureduce_dask.device import operator as device_operator
from gpureduce_dask.device.layout import Dim
from gpureduce_dask.device.scan_task import Gpu
from gpureduce_dask.operators.grouped import Bins, binned
from gpureduce_dask.operators.monoid import Monoid
from gpureduce_dask.operators.table import OPERATORS
from gpureduce_dask.tools.bench import binned as rows_of_groups
from gpureduce_dask.tools.bench.one_read import FAMILIES

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
OPS = [
    ("sum", "f4"),
    ("sum", "f8"),
    ("mean", "f2"),
    ("var", "f4"),
    ("argmax", "f4"),
    ("min", "i2"),
    ("max", "f4"),
    ("max", "u8"),
    ("count_nonzero", "?"),
    ("argmin", "i8"),
    ("last", "f4"),
    ("first", "c16"),
    ("norminf", "f2"),
    ("var", "c16"),
    ("norm2", "f8"),
    ("nanstd", "bfloat16"),
    ("mean", "u8"),
    ("norm1", "i2"),
    ("nansum", "c8"),
    ("ptp", "f8"),
    ("any", "c16"),
    ("all", "?"),
]


@pytest.fixture(autouse=True)
def h200(monkeypatch):
    monkeypatch.setattr(plans, "gpu", lambda device: Gpu(227 * 1024, 132))


TILES = "bins_tiles<Prod<Value<f32, f64>>, i32, 4, false, 256, 4, 128>"


def rows(groups, indexed=False, label="i32", vector=4, length=2**28, inner=1):
    return plans.Rows(1, length, inner, groups, label, vector, (Dim(length, 0, 0, 1),) if indexed else ())


def many_rows(length, groups, vector=1, number=2000, indexed=False):
    return plans.Rows(number, length, 1, groups, "i32", vector, (Dim(length, 0, 0, 1),) if indexed else ())


def kernels():
    for types in ("f32, f32, 4, true", "f64, f64, 2, false", "u8, i64, 16, false", "half, f32, 8, false"):
        yield f"bins_histogram<{types}, {histogram.THREADS}, {histogram.LOADS}>"
    yield f"bins_codes<i16, f64, true, {histogram.THREADS}>"
    for i, (name, dtype) in enumerate(OPS):
        bound = binned(OPERATORS[name].bind(dtype), Bins("grouped", (2,), (0,))).cells
        op, label = device_operator.cuda_operator(bound), ("i32", "i64", "u8", "i16")[i % 4]
        vector = plans.vector_of([np.dtype(dtype).itemsize], int(label[1:]) // 8, [0, 0], 1, 2**28)
        some = rows(10, bound.indexed, label, vector)
        yield from (plans.private(op, some).kernel, plans.tiles(op, some, 0).kernel)
        length, groups = ((9001, 1000), (9000, 300), (2000, 40), (200_000 // np.dtype(dtype).itemsize, 100))[i % 4]
        tall = many_rows(length, groups, 1 if i % 3 == 0 else vector, indexed=bound.indexed)
        yield from (step.kernel for step in plans.in_rows(op, tall, 0))
        if i % 2:
            yield from (step.kernel for step in plans.steps(plans.PIECES, op, some, 0))
            yield from (step.kernel for count in (1, 2) for step in plans.pieces(op, some, count))
            yield plans.pieces(op, rows(10, bound.indexed, label, vector, inner=64), 2)[0].kernel
            yield from (plans.sorting_block(rows(10, label=label, length=n)).kernel for n in (9, 9000))
        if plans.word_of(op):
            uncounted = device_operator.cuda_operator(OPERATORS[name].bind(dtype))  # where labels tell what is empty
            yield from (step.kernel for each in (op, uncounted) for step in plans.raised(each, some))
        nbytes = np.dtype(dtype).itemsize + int(label[1:]) // 8
        thousand = replace(rows(1000, label=label, vector=vector), nbytes=nbytes)
        if plans.fields(op) or plans.adds_whole(op):
            adding = plans.window(op, thousand, 0)
            yield adding.kernel
            if plans.fields(op):
                yield from (plans.rounding(op, rows(n), adding).kernel for n in (10, 10**6))
        if name in ("min", "max", "argmax", "ptp", "any", "all"):
            yield from (plans.best(each, thousand, 0).kernel for each in (op, uncounted))
        if plans.adds_digits(op):
            yield plans.scattered(plans.EXACT, op, some).kernel
        if name == "count_nonzero":
            yield plans.scattered(plans.ATOMIC, op, some).kernel


@pytest.mark.parametrize("kernel", ["bins_sort_split<i32, false, 256, 16>", "bins_sort_block<i32, 256, 16>", TILES])
def test_shared_memory_is_known_as_such(kernel):
    """Where the compiler does not see what memory a pointer is to, an access takes the way of the GPU's memory."""
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    text, options = compiler._program_and_options(kernel, "compute_90", "")
    program = nvrtc.createProgram(text, "kernel.cu", (), ())
    nvrtc.addNameExpression(program, kernel)
    nvrtc.compileProgram(program, options)
    accesses = re.findall(r"\s((?:ld|st|atom|red)\.[a-z0-9_.:]+)", nvrtc.getPTX(program).decode())
    assert any(".shared." in access for access in accesses)
    assert not [access for access in accesses if not re.search("shared|global|param|local", access)]


@pytest.mark.parametrize(("arch", "step"), [("sm_90", 12), *(slow(arch, 1) for arch in ARCHITECTURES)])
def test_kernels_compile_without_spills(arch, step):
    """By default of every so manieth for sm_90."""
    names = sorted(set(kernels()))
    share = names[ARCHITECTURES.index(arch) :: len(ARCHITECTURES)][::step]

    def log(kernel):
        return kernel, compiler._compile(kernel, arch, "")[2]  # as the launch layer does

    with ThreadPoolExecutor(2) as pool:
        for kernel, words in pool.map(log, share):
            spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", words)
            assert spilled and spilled.groups() == ("0", "0"), (kernel, words)


@pytest.mark.parametrize(
    "groups, expected",
    [(10, plans.PRIVATE), (100, plans.WINDOW), (1000, plans.WINDOW), (100_000, plans.WINDOW), (10**6, plans.EXACT)],
)
def test_methods_of_sums_of_float32(groups, expected):
    op = device_operator.cuda_operator(OPERATORS["sum"].bind("f4"))
    assert plans.method(op, rows(groups), False, 0) == expected
    assert plans.method(op, rows(groups, inner=64), False, 0) == plans.PIECES
    assert plans.method(op, rows(groups, length=groups), False, 0) != plans.WINDOW


@pytest.mark.parametrize("name", ["sum", "mean", "var"])
@pytest.mark.parametrize("groups", [10, 100, 1000, 2000])
def test_states_in_shared_memory_fit(name, groups):
    op, some = device_operator.cuda_operator(OPERATORS[name].bind("f4")), rows(groups)
    ways = {
        plans.PRIVATE: lambda: plans.private(op, some),
        plans.TILES: lambda: plans.tiles(op, some, 0),
        plans.WINDOW: lambda: plans.window(op, some, 0),
    }
    step = ways[plans.method(op, some, False, 0)]()
    assert step.shared_bytes <= plans.TILE_BYTES
    assert f", {step.threads}, " in step.kernel


@pytest.mark.parametrize("room", [64 * 1024, 99 * 1024, 163 * 1024])
@pytest.mark.parametrize("name, dtype", [("var", "f4"), ("sum", "f8"), ("kurtosis", "f8"), ("max", "f4")])
def test_blocks_ask_for_no_more_shared_memory_than_a_gpu_has(monkeypatch, room, name, dtype):
    monkeypatch.setattr(plans, "gpu", lambda device: Gpu(room, 40))
    op = device_operator.cuda_operator(binned(OPERATORS[name].bind(dtype), Bins("grouped", (2,), (0,))).cells)
    for groups in range(2, 4000, 61):
        some = rows(groups, vector=2)
        way = plans.method(op, some, False, 0)
        assert max(step.shared_bytes for step in plans.steps(way, op, some, 0)) <= room, groups


@pytest.mark.parametrize("room", [64 * 1024, 99 * 1024, 227 * 1024])
@pytest.mark.parametrize("name, dtypes", [("var", "f4"), ("kurtosis", "f8"), ("any", "?"), ("affine", "u1 i8")])
def test_rows_in_shared_memory_fit(monkeypatch, room, name, dtypes):
    monkeypatch.setattr(plans, "gpu", lambda device: Gpu(room, 40))
    op = device_operator.cuda_operator(OPERATORS[name].bind(*dtypes.split()))
    fitting = 0
    for length in range(1, 150_000, 1777):
        for groups in (1, 1 + length // 30, 10 * length):
            some = many_rows(length, groups)
            tile = plans.row_tile(op, some, room)
            if tile is None:
                assert length * sum(op.itemsizes) > room // 3
                continue
            fitting += 1
            ranking, folding = plans.in_rows(op, some, 0)
            assert folding.shared_bytes <= room and folding.blocks * tile.rows >= some.rows
            assert ranking.blocks * ranking.threads >= length
            assert tile.rows * groups < 2**32
            assert (tile.lanes, tile.size) == (plans.row_tile(op, some, 227 * 1024).lanes, tile.size)
    assert fitting


def test_methods_of_many_rows():
    def way(name, dtype, length, groups, number=2000):
        return plans.method(extremes(name, dtype), many_rows(length, groups, number=number), False, 0)

    assert way("var", "f4", 30, 4) == way("first", "f4", 4000, 40) == way("sum", "f4", 9000, 1000) == plans.ROWS
    assert way("std", "i2", 32_699, 1022) == way("prod", "i1", 12_480, 195) == plans.ROWS
    assert way("var", "f4", 60_000, 1100) == way("var", "f4", 5000, 300, number=20) == plans.TILES
    assert way("var", "f4", 9000, 2) == plans.PRIVATE
    assert way("max", "f4", 40_000, 100) == plans.BEST and way("max", "f4", 20_000, 6000) == plans.ROWS
    assert way("sum", "f4", 40_000, 100) == plans.WINDOW
    assert way("norm1", "u2", 144_936, 4681, number=224) == way("sum", "f4", 500_000, 5000, number=100) == plans.WINDOW
    assert way("var", "f8", 100_000, 1000, number=100) == plans.TILES


def test_rows_are_shared_among_blocks_that_run_at_once():
    shared = [plans._splits(many_rows(10**6, 100, number=n), 1024, 132) for n in (1, 14, 21, 37, 60, 400)]
    assert shared == [132, 9, 6, 7, 2, 4]
    few = many_rows(10**6, 100, number=1)
    assert plans._splits(few, 1024, 132, 200) >= 200


def extremes(name, dtype):
    return device_operator.cuda_operator(binned(OPERATORS[name].bind(dtype), Bins("grouped", (2,), (0,))).cells)


@pytest.mark.parametrize("groups, columns", [(10, 32), (1000, 32), (2000, 16), (9000, 4), (50_000, 1), (100_000, 0)])
def test_extremes_have_words_in_shared_memory_while_there_is_room(groups, columns):
    op = extremes("max", "f4")
    assert plans.best_columns(op, groups, 227 * 1024) == columns
    if columns:
        assert plans.method(op, rows(groups), False, 0) == plans.BEST
        assert plans.best(op, rows(groups), 0).shared_bytes <= plans.gpu(0).shared_bytes
        assert plans.method(op, rows(groups, length=1000), False, 0) != plans.BEST
    assert plans.best_columns(extremes("argmin", "i2"), groups, 227 * 1024) == {10: 32, 1000: 16, 2000: 4}.get(
        groups, 1 if groups < 29_000 else 0
    )
    both = {10: 32, 1000: 16, 2000: 4, 9000: 1}  # two words each
    assert plans.best_columns(extremes("ptp", "f4"), groups, 227 * 1024) == both.get(groups, 0)
    assert plans.best_columns(extremes("any", "c8"), groups, 227 * 1024) == columns
    for name, dtype in (("argmax", "f8"), ("argmin", "c8"), ("max", "c8")):
        assert plans.best_columns(extremes(name, dtype), groups, 227 * 1024) == 0
    assert plans.best_columns(extremes("min", "i8"), 10_000, 227 * 1024) == 1


@pytest.mark.parametrize("room", [64 * 1024, 99 * 1024, 227 * 1024])
def test_windows_fit_and_limbs_of_floats_are_no_fewer_than_there_is_room_for(room):
    for name, dtype in (
        ("sum", "f4"),
        ("mean", "f4"),
        ("count_nonzero", "f4"),
        ("var", "f8"),
        ("var", "i2"),
        ("sum", "c16"),
    ):
        op = cuda(name, dtype)
        most = bisect_left(range(1, 1_000_000), True, key=lambda k, op=op: not plans.window_ranges(op, rows(k), room))
        for groups in (10, 700, most):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(plans, "gpu", lambda device: Gpu(room, 132))
                step = plans.window(op, rows(groups), 0)
            assert step.shared_bytes <= room, (name, groups)
            assert rows(groups).length / step.work.splits <= plans.WINDOW_SHARE
        assert most > 1000 and plans.window_ranges(op, rows(most + 1), room) == 0
        assert step.work.tiles == {("var", "f8"): 6, ("var", "i2"): 6, ("sum", "c16"): 6}.get((name, dtype), 12)


def cuda(name, dtype):
    return device_operator.cuda_operator(OPERATORS[name].bind(dtype))


def test_operators_whose_additions_are_exact():
    def kinds(name, dtype):
        return plans.adds_whole(cuda(name, dtype)), len(plans.fields(cuda(name, dtype)))

    for name in ("sum", "mean", "nansum", "nanmean"):
        assert kinds(name, "f4") == kinds(name, "f2") == kinds(name, "f8") == (False, 1)
        assert kinds(name, "i4") == kinds(name, "?") == (True, 0)
        assert kinds(name, "c8") == (False, 2)
    assert kinds("sum", "u8") == kinds("sumsq", "i2") == kinds("count_nonzero", "f8") == (True, 0)
    for dtype in ("f4", "f8", "i1", "u8", "?", "f2"):
        assert kinds("var", dtype) == kinds("nanstd", dtype) == (False, 2)
        assert kinds("norm1", dtype) == kinds("norm2", dtype) == (False, 1)
    assert kinds("var", "c16") == (False, 3)
    for name, dtype in (("norm1", "c8"), ("max", "i4"), ("prod", "f4"), ("kurtosis", "f4")):
        assert kinds(name, dtype) == (False, 0), (name, dtype)
    assert [plans.adds_digits(cuda("sum", t)) for t in ("f2", "f4", "f8", "c8")] == [True, True, False, False]


def test_exact_sums_have_the_numbers_of_their_kernels():
    """The plan's fields, as the compiler finds them in kernels/bins/numbers.cuh."""
    types = {"f4": "f32", "f8": "f64", "f2": "half", "bfloat16": "bfloat16", "?": "boolean"}
    types |= {f"{sign}{n}": f"{sign}{8 * n}" for sign in "iu" for n in (1, 2, 4, 8)}
    checks = []
    for dtype, cuda_type in types.items():
        for power, field in enumerate(plans.fields(cuda("var", dtype)), 1):
            name = f"Field<{cuda_type}, {power}>"
            numbers = {
                "digits": field.digits,
                "digit": field.digit,
                "span": field.span,
                "words_a_limb": field.limb_words,
            }
            numbers |= {f"limbs({more})": field.limbs(more) for more in (0, 2, 5, 14)}
            numbers |= {f"words({apart})": field.words(apart) for apart in (8, 17, plans.APART)}
            checks += [f'static_assert({name}::{each} == {n}, "{name} {each}");' for each, n in numbers.items()]
    compiler._compile(plans.scattered(plans.EXACT, cuda("sum", "f4"), rows(10)).kernel, "sm_90", "\n".join(checks))


@pytest.mark.parametrize("length", [1, 2**10, 2**28, 2**31])
@pytest.mark.parametrize("dtype", ["f4", "f2", "bfloat16"])
def test_words_in_memory_hold_as_many_elements_as_there_are(length, dtype):
    op = cuda("sum", dtype)
    (field,) = plans.fields(op)
    apart = plans.word_spacing(op, length)
    assert length * (2**field.digit - 1) * 2 ** (apart - 1) < 2**63
    assert field.words(apart) * apart >= field.places + field.bits
    assert 2 * plans.WINDOW_MOST * (2**32 - 1) < 2**63  # two squares an element, cut into words of 32 bits


@pytest.mark.parametrize(
    "name, dtype", [("norm1", "i4"), ("norm1", "u4"), ("norm2", "u2"), ("norm2", "i1"), ("norm1", "?")]
)
def test_integers_are_added_in_memory_where_one_word_holds_their_sum(name, dtype):
    op = cuda(name, dtype)
    (field,) = plans.fields(op)
    assert plans.method(op, rows(10**6, length=1000), False, 0) == plans.PIECES
    for length in (2**24, 2**31 - 1, 2**31, 2**32 - 2**16):
        way = plans.method(op, rows(10**6, length=length), False, 0)
        fits = length < 2**31 or field.bits < 32
        assert length * (2**field.bits - 1) < 2**63 or not fits
        assert way == (plans.EXACT if fits else plans.PIECES), length
        assert plans.word_spacing(op, length) == plans.APART if fits else plans.word_spacing(op, length) < 1


@pytest.mark.parametrize("dtype", ["f2", "bfloat16", "f4", "f8", "?", "i1", "u2", "i4", "u8"])
def test_limbs_of_a_block_hold_as_many_elements_as_it_has(dtype):
    for field in plans.fields(cuda("var", dtype)):
        largest = 2**field.digit * 2 ** (field.span - 1 if field.is_float else 0)
        assert largest <= 2**64  # what is added at once
        assert 2 * plans.WINDOW_SHARE * largest < 2 ** (32 * field.limb_words - 1)


def test_loads_are_wide_where_rows_are_aligned():
    assert plans.vector_of([4], 4, [0, 16], 1, 1001) == 4
    assert plans.vector_of([4], 4, [0, 16], 2, 1001) == 1
    assert plans.vector_of([4], 4, [0, 16], 2, 1002) == 2
    assert plans.vector_of([4], 4, [4, 16], 1, 1000) == 1
    assert plans.vector_of([2], 4, [4, 8], 1, 1000) == 2
    assert plans.vector_of([2], 4, [4, 0], 2, 1001) == 1
    assert plans.vector_of([4, 2], 4, [0, 8, 0], 3, 1000) == 4
    assert plans.vector_of([1], 8, [0, 0], 1, 1000) == 4


def test_the_benchmark_has_rows_of_groups():
    cases = FAMILIES[rows_of_groups.MODE].cases(4)
    assert {case.op for case in cases} >= {"sum 10", "sum 1000", "sum 1000000", "var 10"}
    assert all(case.shape == (2**28,) and case.axes == (0,) for case in cases)
    assert rows_of_groups.torch_call("var 10", None, None) is None


def test_a_thread_has_columns_that_divide_a_row():
    op = device_operator.cuda_operator(OPERATORS["sum"].bind("f4"))
    for inner, vector in ((1 << 17, 2), ((1 << 17) + 1, 1), (2, 1)):
        rows = plans.Rows(1, 400, inner, 12, "i32", 4, ())
        fold, _ = plans.pieces(op, rows, 1)
        assert fold.kernel == f"bins_columns<{op.type}, false, {vector}, 4, {plans.THREADS}>"
        assert fold.work.width * vector == inner


def test_a_users_product_has_no_atomics():
    row = Monoid(
        name="product_of",
        fields={"value": "i8"},
        identity=(1,),
        lift=lambda x, _: (x.astype("i8"),),
        combine=lambda a, b: (a[0] * b[0],),
        finalise=lambda state, _: state[0],
        unsafe_cuda="struct product_of { typedef i64 State; };",
    )
    assert not device_groups._adds_words(row.bind("i8"))
    assert device_groups._adds_words(OPERATORS["prod"].bind("i8"))
