"""Bad input to the device side, without a GPU: text that does not compile, GPUs and memory that will not do."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="its arrays are what the device side takes")

import cupy
from cupy.cuda.memory import OutOfMemoryError
from cupy_backends.cuda.libs import nvrtc

try:
    nvrtc.getVersion()
except RuntimeError as error:
    pytest.skip(f"NVRTC does not load: {error}", allow_module_level=True)

from simt.backend import Emulator, put
from strategies import takes

from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import launch, plan_cache
from gpureduce_dask.device import operator as device_operator
from gpureduce_dask.device import reduce as device_reduce
from gpureduce_dask.device import scan as device_scan
from gpureduce_dask.device.launch import PER_THREAD_STREAM
from gpureduce_dask.errors import ArgumentError, CompileError, DeviceError, DeviceMemoryError, DtypeError
from gpureduce_dask.expressions import tracer
from gpureduce_dask.expressions.mapped import mapped
from gpureduce_dask.operators.monoid import LONGEST_NAME, Monoid
from gpureduce_dask.operators.table import OPERATORS

GOOD = """
struct Largest {
    struct State { f64 value; };
    static GR_HD State identity() { return {0}; }
    static GR_HD State lift(f32 x, i64) { return {fabs((f64)x)}; }
    static GR_HD State combine(State a, State b) { return {a.value > b.value ? a.value : b.value}; }
};
"""
KERNEL = "fill_cells<User<Largest, f32, true>, Keep<User<Largest, f32, true>>, 256, 1>"


def largest(text: str = GOOD, **changes: Any) -> Monoid:
    row = Monoid(
        name="Largest",
        fields={"value": "f8"},
        identity=(0.0,),
        lift=lambda x, index: (np.abs(x).astype("f8"),),
        combine=lambda earlier, later: (np.maximum(earlier[0], later[0]),),
        finalise=lambda state, dtype: state[0].astype(dtype),
        unsafe_cuda=text,
    )
    return replace(row, **changes)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing is remembered of other tests, and nothing of these by others."""
    compiler.clear()
    compiler.architecture.cache_clear()
    yield
    compiler.clear()
    compiler.architecture.cache_clear()


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were given to the compiler."""
    given: list[str] = []
    compile_text = compiler.compile_text

    def counted(program: str, kernel: str, options: tuple[str, ...]) -> Any:
        given.append(kernel)
        return compile_text(program, kernel, options)

    monkeypatch.setattr(compiler, "compile_text", counted)
    return given


# ---- NVRTC's own cache


WARNING = "state.cuh(41): warning: what the front end says is kept in the cache"


@pytest.mark.parametrize("said", ["", WARNING])
@pytest.mark.parametrize(
    ("local", "found", "compiled"),
    [
        ({"cached": 0}, "cached", [()]),
        ({"cached": 8, "6 blocks": 8, "5 blocks": 0}, "5 blocks", [(), ("-DGR_BLOCKS=6",), ("-DGR_BLOCKS=5",)]),
        ({"cached": 8}, "afresh", [(), *[(f"-DGR_BLOCKS={n}",) for n in range(6, 0, -1)], ("-no-cache",)]),
    ],
)
def test_a_cached_kernel_that_may_spill_is_compiled_again(monkeypatch, local, found, compiled, said) -> None:
    """What comes from NVRTC's cache has no word of ptxas: whether it spills, the loaded function tells."""
    given: list[tuple[str, ...]] = []

    def cached(program: str, kernel: str, options: tuple[str, ...]) -> tuple[bytes, str, str]:
        more = tuple(o for o in options if o.startswith(("-D", "-no")))
        given.append(more)
        if "-no-cache" in more:
            return b"afresh", "name", "ptxas info: 0 bytes spill stores, 0 bytes spill loads, Used 40 registers"
        return (f"{more[0][-1]} blocks".encode() if more else b"cached", "name", said)

    def attribute(number: int, code: bytes) -> int:
        return 40 if number == compiler.USED else local.get(code.decode(), 8)

    monkeypatch.setattr(compiler, "compile_text", cached)
    monkeypatch.setattr(compiler, "_function_of", lambda code, name: SimpleNamespace(ptr=code))
    monkeypatch.setattr("cupy_backends.cuda.api.driver.funcGetAttribute", attribute)
    for _ in range(2):  # the second time it is remembered
        loaded = compiler._load(KERNEL, "sm_90", "")
    assert loaded.ptr == found.encode()
    assert given == compiled


# ---- text that does not compile


@pytest.mark.parametrize(
    ("good", "bad", "line", "says"),
    [
        ("{0}", "{nonsense}", 4, 'identifier "nonsense" is undefined'),
        ("return {fabs((f64)x)};", "return {fabs((f64)x)}", 5, 'expected a ";"'),
        ("identity", "identities", None, 'has no member "identity"'),
        ("struct Largest", "struct Smallest", None, "Largest"),
        ("fabs((f64)x)", "printf(1)", 5, "printf"),
        (GOOD, '\n#include "nothing.h"\n', 2, "nothing.h"),
        (GOOD, '\n#error "stop"\n', 2, "stop"),
    ],
)
def test_the_log_names_the_line(good: str, bad: str, line: int | None, says: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiler.cubin(KERNEL, "sm_90", GOOD.replace(good, bad))
    text = str(caught.value)
    assert text.startswith(f"compile: {KERNEL} does not compile; expected CUDA C++17 without headers. NVRTC says:\n")
    assert says in text
    assert line is None or f"operator.cu({line}): " in text


def test_a_line_of_the_kernels_is_named_by_their_file() -> None:
    with pytest.raises(CompileError, match=r"(?s)cells\.cuh\(\d+\).*operator\.cu|operator\.cu.*cells\.cuh"):
        compiler.cubin(KERNEL, "sm_90", GOOD.replace("struct State { f64 value; };", "typedef void State;"))


def test_a_failure_is_remembered_and_travels(compiles: list[str]) -> None:
    raised = []
    for _ in range(3):
        with pytest.raises(CompileError) as caught:
            compiler.cubin(KERNEL, "sm_90", "struct Largest {};")
        raised.append(caught.value)
    assert compiles == [KERNEL]
    assert len({str(error) for error in raised}) == 1
    assert len({id(error) for error in raised}) == 3  # or tracebacks of all raisers would pile up on one
    again = pickle.loads(pickle.dumps(raised[0]))
    assert type(again) is CompileError and str(again) == str(raised[0])


def test_what_compiles_is_compiled_once_a_text_and_architecture(compiles: list[str]) -> None:
    first = compiler.cubin(KERNEL, "sm_90", GOOD)
    assert compiler.cubin(KERNEL, "sm_90", GOOD)[0] is first[0] and len(compiles) == 1
    compiler.cubin(KERNEL, "sm_80", GOOD)
    compiler.cubin(KERNEL, "sm_90", GOOD + "// another")
    assert len(compiles) == 3
    compiler.clear()
    compiler.cubin(KERNEL, "sm_90", GOOD)
    assert len(compiles) == 4


def test_a_kernel_that_takes_long_to_compile_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends, found = threading.Event(), threading.Event(), []

    def compiled(kernel: str, arch: str, text: str, more: tuple[str, ...] = ()) -> tuple[bytes, str, str]:
        if kernel == "slow":
            begun.set()
            assert ends.wait(20)
        return b"code", kernel, "ptxas info"

    def load(kernel: str) -> None:
        found.append(compiler.function(kernel, 0))

    monkeypatch.setattr(compiler, "_compile", compiled)
    monkeypatch.setattr(compiler, "_function_of", lambda code, name: name)
    monkeypatch.setattr(compiler, "architecture", lambda device: "sm_90")
    slow = [threading.Thread(target=load, args=("slow",)) for _ in range(2)]
    for thread in slow:
        thread.start()
    assert begun.wait(20)
    quick = threading.Thread(target=load, args=("quick",))
    quick.start()
    quick.join(20)
    assert found == ["quick"]
    ends.set()
    for thread in slow:
        thread.join(20)
    assert found == ["quick", "slow", "slow"] and not compiler._makers


def test_kernels_are_forgotten_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_compile", lambda kernel, arch, text, more=(): (b"code", kernel, "ptxas info"))
    monkeypatch.setattr(compiler, "_function_of", lambda code, name: name)
    monkeypatch.setattr(compiler, "architecture", lambda device: "sm_90")
    for i in range(plan_cache.MOST + 5):
        assert compiler.function(f"kernel_{i}", 0) == f"kernel_{i}"
    assert len(compiler._cubins) == len(compiler._functions) == plan_cache.MOST
    compiler.clear()


# ---- streams


class Tickets:
    def __init__(self) -> None:
        self.data = SimpleNamespace(ptr=id(self))


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """What the driver says of handles."""
    numbers = {PER_THREAD_STREAM: 2, 0x1000: 7}
    monkeypatch.setattr(launch, "_tickets", {})
    monkeypatch.setattr(launch, "_runtime", lambda: SimpleNamespace(stream_id=numbers.__getitem__))
    monkeypatch.setattr(cupy, "zeros", lambda shape, dtype: Tickets())
    return numbers


@pytest.mark.parametrize("handle", [0x1000, PER_THREAD_STREAM])
def test_a_stream_that_gets_the_handle_of_another_has_tickets_of_its_own(streams, handle) -> None:
    """Launches on a stream that is destroyed run on; so do those of a thread that ends."""
    first = launch._tickets_of(0, handle)
    assert launch._tickets_of(0, handle) is first
    streams[handle] += 100
    second = launch._tickets_of(0, handle)
    assert second is not first and launch._tickets_of(0, handle) is second


def test_gpus_do_not_share_tickets(streams) -> None:
    assert len({id(launch._tickets_of(device, handle)) for device in (0, 1) for handle in (0, 0x1000)}) == 4


def test_tickets_of_few_streams_are_kept(streams) -> None:
    for streams[0x1000] in range(3 * launch.STREAMS):
        launch._tickets_of(0, 0x1000)
    assert len(launch._tickets) == launch.STREAMS


class Zeroed:
    """A GPU whose memory is counted through: what was zeroed, and on which stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.end, self.filled, self.capturing = 1 << 20, [], False
        self.numbers = {0x1000: 7, 0x2000: 8}
        monkeypatch.setattr(launch, "_zeros", {})
        runtime = SimpleNamespace(
            stream_id=self.numbers.__getitem__,
            alloc=self.alloc,
            memset=self.fill,
            is_capturing=lambda stream: self.capturing,
        )
        monkeypatch.setattr(launch, "_runtime", lambda: runtime)

    def alloc(self, nbytes: int) -> Any:
        at, self.end = self.end, self.end + nbytes
        return SimpleNamespace(ptr=at)

    def fill(self, address: int, value: int, nbytes: int, stream: int) -> None:
        self.filled.append((address, address + nbytes, stream))

    def ask(self, nbytes: int, device: int = 0, stream: int = 0) -> tuple[int, int]:
        """A part of memory that was zeroed on its stream."""
        memory, at = launch.zeros(nbytes, device, stream)
        assert any(a <= at and at + nbytes <= b and s == stream for a, b, s in self.filled)
        assert memory.ptr <= at and at % 16 == 0
        return at, at + nbytes


@pytest.fixture
def zeroed(monkeypatch: pytest.MonkeyPatch) -> Zeroed:
    return Zeroed(monkeypatch)


def test_zeros_are_given_once(zeroed) -> None:
    sizes = [16, 300, 5000, launch.MOST_ZEROS, launch.MOST_ZEROS - 16, launch.MOST_ZEROS + 16, 3 * launch.ZEROS] * 9
    parts = sorted(zeroed.ask(n, device, stream) for n in sizes for device in (0, 1) for stream in (0, 0x1000, 0x2000))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(parts))
    assert len(zeroed.filled) < len(parts)


def test_small_zeros_take_few_launches(zeroed) -> None:
    for _ in range(1000):
        zeroed.ask(launch.ZEROS_ALIGNMENT)
    assert len(zeroed.filled) == 1


def test_a_stream_that_gets_the_handle_of_another_has_zeros_of_its_own(zeroed) -> None:
    zeroed.ask(16, stream=0x1000)
    zeroed.numbers[0x1000] += 100
    zeroed.ask(16, stream=0x1000)
    assert len(zeroed.filled) == 2


def test_zeros_of_few_streams_are_kept(zeroed) -> None:
    for zeroed.numbers[0x1000] in range(3 * launch.STREAMS):
        zeroed.ask(16, stream=0x1000)
    assert len(launch._zeros) == launch.STREAMS


def test_a_captured_launch_zeroes_its_memory_each_time(zeroed) -> None:
    zeroed.ask(16, stream=0x1000)
    zeroed.capturing = True
    parts = [zeroed.ask(16, stream=0x1000) for _ in range(3)]
    assert zeroed.filled[1:] == [(*part, 0x1000) for part in parts]
    zeroed.capturing = False
    assert zeroed.ask(16, stream=0x1000)[0] < parts[0][0] and len(zeroed.filled) == 4


def test_zeros_that_cannot_be_had_are_asked_for_again(zeroed, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(nbytes: int) -> Any:
        raise MemoryError(nbytes)

    with monkeypatch.context() as patch:
        patch.setattr(launch, "allocate", nothing)
        with pytest.raises(MemoryError):
            launch.zeros(16, 0, 0)
    assert zeroed.ask(16) == (1 << 20, (1 << 20) + 16)


@pytest.mark.parametrize("text", [GOOD, "struct Largest {};"], ids=["good", "bad"])
def test_threads_compile_a_kernel_once(compiles: list[str], text: str) -> None:
    barrier, ends = threading.Barrier(4), []

    def one() -> None:
        barrier.wait()
        try:
            compiler.cubin(KERNEL, "sm_90", text)
            ends.append("compiled")
        except CompileError:
            ends.append("refused")

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiles == [KERNEL]
    assert ends == ["compiled" if text == GOOD else "refused"] * 4


def emulated_reduce(bound: Any, chunk: Any, **options: Any) -> Any:
    with Emulator("").installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "run", lambda *_: None)
        return device_reduce.reduce((chunk,), bound, (0,), **options)


@pytest.fixture
def real_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans compile for a GPU that is not there, and load nothing."""

    def ready(launches: Any, number: int, text: str = "", constants: Any = ()) -> tuple[()]:
        for step in launches:
            compiler.cubin(step.kernel, "sm_90", text)
        return ()

    monkeypatch.setattr(launch, "ready", ready)


def test_every_chunk_of_a_monoid_that_does_not_compile_says_why(real_compiler: None, compiles: list[str]) -> None:
    bound = largest(GOOD.replace("{0}", "{nonsense}")).bind("f4")
    for _ in range(3):
        with pytest.raises(CompileError, match=r'(?s)operator\.cu.*"nonsense" is undefined'):
            emulated_reduce(bound, put(np.ones(5, "f4")))
    assert len(compiles) == 1


@pytest.mark.parametrize("members", ["f32 value;", "f64 value, other;", "f64 value; u8 more;"])
def test_a_state_unlike_the_fields_is_refused(real_compiler: None, members: str) -> None:
    """Kernels would write past what Python made room for."""
    text = GOOD.replace("f64 value;", members).replace("fabs((f64)x)", "1").replace("{0}", "State()")
    with pytest.raises(CompileError, match="the fields of Largest take 8 bytes"):
        emulated_reduce(largest(text).bind("f4"), put(np.ones(5, "f4")))
    emulated_reduce(largest().bind("f4"), put(np.ones(5, "f4")))


# ---- names


HOSTILE = [
    *("", " ", "a b", "a;", "a}", "a{", "#a", "a#", "a//", "a/*", "a\\", 'a"', "a'", "a\0", "\0", "a\n", "\na", "a\r"),
    *("a<int>", "a>", "a,b", "a::b", "a(b)", "a-b", "a.b", "1a", "a\t", "??/", "$a", "a\\\n", "a\n#include <stdio.h>"),
    *("\u00e9", "\uff41", "\u0430", "a\u200b"),
    *("a" * (LONGEST_NAME + 1), "a" * 5_000_000, ";" * 5_000_000),
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name[:12]))
def test_hostile_names_are_refused(name: str, compiles: list[str]) -> None:
    with pytest.raises(ArgumentError, match=r"^Monoid: name .*; expected an ASCII identifier of at most") as caught:
        largest(name=name)
    assert len(str(caught.value)) < 1000
    assert not compiles


@pytest.mark.parametrize("name", [None, 7, b"sum", ("sum",)])
def test_names_that_are_no_text_are_refused(name: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^Monoid: name .*; expected an ASCII identifier"):
        largest(name=name)


@pytest.mark.parametrize("name", ["a", "_", "class_2", "a" * LONGEST_NAME])
def test_plain_names_are_taken(name: str) -> None:
    bound = largest(GOOD.replace("Largest", name), name=name).bind("f4")
    assert device_operator.cuda_operator(bound).type == f"User<{name}, f32, true>"


@pytest.mark.parametrize("name", ["Sum", "int", "Task", "User", "struct"])
def test_names_that_cuda_has_taken_do_not_compile(real_compiler: None, name: str) -> None:
    bound = largest(GOOD.replace("Largest", name), name=name).bind("f4")
    with pytest.raises(CompileError, match=r"operator\.cu"):
        emulated_reduce(bound, put(np.ones(5, "f4")))


# ---- GPUs


class Gpu:
    """A GPU of this compute capability."""

    def __init__(self, capability: str) -> None:
        self.compute_capability = capability


@pytest.mark.parametrize(("capability", "spoken"), [("61", "6.1"), ("50", "5.0"), ("35", "3.5")])
def test_an_old_gpu_is_refused(monkeypatch: pytest.MonkeyPatch, capability: str, spoken: str) -> None:
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: Gpu(capability))
    with pytest.raises(DeviceError, match=rf"GPU 3 has compute capability {spoken}; expected 7\.0 or newer") as caught:
        compiler.function("any", 3)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_gpu_newer_than_the_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: Gpu("100"))
    monkeypatch.setattr(nvrtc, "getSupportedArchs", lambda: (75, 80, 90))
    with pytest.raises(DeviceError, match=r"capability 10\.0; expected one of .* 7\.5, 8\.0, 9\.0\. Install .*NVRTC"):
        compiler.function("any", 0)


@pytest.mark.parametrize("capability", ["80", "90", "100"])
def test_gpus_that_will_do(monkeypatch: pytest.MonkeyPatch, capability: str) -> None:
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: Gpu(capability))
    assert compiler.architecture(0) == f"sm_{capability}"


@pytest.mark.parametrize("error", [RuntimeError("libnvrtc.so.13: not found"), ImportError("no nvrtc")])
def test_a_missing_compiler_names_what_to_install(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def missing() -> None:
        raise error

    monkeypatch.setattr(cupy.cuda, "Device", lambda number: Gpu("90"))
    monkeypatch.setattr(nvrtc, "getSupportedArchs", missing)
    with pytest.raises(
        DeviceError, match=r"NVRTC does not load \(.*\).*pip install \"gpureduce-dask\[cuda13\]\""
    ) as caught:
        compiler.function("any", 0)
    assert caught.value.__cause__ is error


# ---- memory


class Memory:
    """A GPU's allocator that refuses so many times, and the pool that was freed in between."""

    def __init__(self, refusals: int, error: type[Exception]) -> None:
        self.refusals, self.error = refusals, error
        self.requests: list[int] = []
        self.freed = 0

    def alloc(self, nbytes: int) -> Any:
        self.requests.append(nbytes)
        if len(self.requests) <= self.refusals:
            raise (self.error(nbytes, 0) if self.error is OutOfMemoryError else self.error("std::bad_alloc"))
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(512, nbytes, None, 0), 0)

    def free_all_blocks(self) -> None:
        self.freed += 1


@pytest.fixture(params=[OutOfMemoryError, MemoryError], ids=["CuPy", "RMM"])
def memory_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes all of CuPy's memory come from a ``Memory``."""

    def install(refusals: int) -> Memory:
        memory = Memory(refusals, request.param)
        stack.enter_context(cupy.cuda.using_allocator(memory.alloc))
        monkeypatch.setattr(cupy.cuda, "alloc", memory.alloc)
        monkeypatch.setattr(cupy, "get_default_memory_pool", lambda: memory)
        monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (1234567, 150_000_000_000))
        monkeypatch.setattr(cupy.cuda.runtime, "getDevice", lambda: 2)
        runtime = SimpleNamespace(alloc=memory.alloc, ndarray=cupy.ndarray, current_device=lambda: 2)
        monkeypatch.setattr(launch, "_runtime", lambda: runtime)
        return memory

    with ExitStack() as stack:
        yield install


def scratch(nbytes: int) -> Any:
    return launch.allocate(nbytes).ptr


def array(nbytes: int) -> Any:
    made, address = launch.new_array((nbytes // 8,), np.dtype("f8"), nbytes)
    assert made.data.ptr == address and made.shape == (nbytes // 8,)
    return address


@pytest.mark.parametrize("ask", [scratch, array])
def test_memory_is_asked_for_twice(memory_of: Any, ask: Any) -> None:
    memory = memory_of(refusals=1)
    assert ask(4096) == 512
    assert memory.requests == [4096, 4096] and memory.freed == 1


@pytest.mark.parametrize("ask", [scratch, array])
def test_no_memory_names_sizes(memory_of: Any, ask: Any) -> None:
    memory = memory_of(refusals=99)
    with pytest.raises(DeviceMemoryError) as caught:
        ask(9_000_000)
    assert memory.requests == [9_000_000] * 2 and memory.freed == 1
    text = str(caught.value)
    assert "GPU 2 has 1,234,567 of 150,000,000,000 bytes free" in text
    assert "expected 9,000,000 bytes for results and partials" in text and "smaller chunks" in text
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value.__cause__, memory.error)
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


@pytest.mark.parametrize("ask", [scratch, array])
def test_enough_memory_is_asked_for_once(memory_of: Any, ask: Any) -> None:
    memory = memory_of(refusals=0)
    assert ask(4096) == 512
    assert memory.requests == [4096] and not memory.freed


# ---- arguments


def test_an_unknown_finish() -> None:
    with pytest.raises(ArgumentError, match=r"^sum: finish='fast'; expected 'ticket', 'atomic' or 'two-pass'"):
        emulated_reduce(OPERATORS["sum"].bind("i4"), put(np.ones(5, "i4")), finish="fast")


EXACT = {"sum": "? i1 i4 u4 i8 u8", "min": "i4 u4 i8 u8", "max": "i4 u4 i8 u8"}


DTYPES = "? i1 i4 u4 i8 u8 f2 f4 f8 c8".split()
TAKEN = [(row.name, d) for row in OPERATORS.values() for d in DTYPES if takes(row, *[d] * row.arity)]


@pytest.mark.parametrize(("name", "dtype"), TAKEN)
def test_atomics_only_where_they_are_exact(name: str, dtype: str) -> None:
    row = OPERATORS[name]
    bound = row.bind(*[dtype] * row.arity)
    exact = name in ("any", "all", "count_nonzero") or dtype in EXACT.get(name, "").split()
    chunk = (put(np.ones(5, dtype)),) * row.arity
    with Emulator("").installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "run", lambda *_: None)
        if exact:
            device_reduce.reduce(chunk, bound, (0,), finish="atomic")
        else:
            with pytest.raises(ArgumentError, match=f"^{name}: finish='atomic' for .*exact in any order.*ticket"):
                device_reduce.reduce(chunk, bound, (0,), finish="atomic")
        with pytest.raises(ArgumentError, match="exact in any order"):
            device_reduce.reduce(chunk, bound, (0,), finish="atomic", final=True)


def test_atomics_of_what_a_map_gives() -> None:
    """Floats, whatever it takes: products of bytes and floats were added up as integers."""
    dtypes = np.dtype("u1"), np.dtype("f4")
    program = tracer.trace(lambda x, y: x * y, dtypes)
    bound = mapped(program, OPERATORS["sum"].bind(*program.results))
    chunk = tuple(put(np.ones(5, d)) for d in dtypes)
    with Emulator("").installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "run", lambda *_: None)
        with pytest.raises(ArgumentError, match="exact in any order"):
            device_reduce.reduce(chunk, bound, (0,), finish="atomic")


def test_atomics_of_integers_summed_as_floats() -> None:
    with pytest.raises(ArgumentError, match="exact in any order"):
        emulated_reduce(OPERATORS["sum"].bind("i4", dtype="f8"), put(np.ones(5, "i4")), finish="atomic")


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ns]", ">f4", ">i2"])
def test_dtypes_that_cuda_lacks(dtype: str) -> None:
    with pytest.raises(DtypeError, match=r"^max: dtypes .* on a GPU; expected dtypes that CUDA has"):
        device_operator.cuda_operator(OPERATORS["max"].bind(dtype))


def test_a_monoid_without_cuda_text() -> None:
    with pytest.raises(CompileError, match=r"^Largest: a monoid without CUDA text.*unsafe_cuda"):
        device_operator.cuda_operator(largest("").bind("f4"))


@pytest.mark.parametrize("count", [24, 25])
def test_states_too_large_for_shared_memory(count: int) -> None:
    fields = {f"f{i}": "f8" for i in range(count)}
    bound = largest(fields=fields, identity=(0.0,) * count).bind("f4")
    if count * 8 <= device_operator.LARGEST_STATE == 192:
        assert device_operator.cuda_operator(bound).state_bytes == 192
        return
    with pytest.raises(ArgumentError, match=r"^Largest: a state of 200 bytes on a GPU; expected at most 192"):
        device_operator.cuda_operator(bound)


def raw(nbytes: int) -> np.ndarray[Any, Any]:
    return np.zeros(nbytes, np.uint8)


MISALIGNED = {
    "one byte on": (raw(64), lambda x: x[1:61].view("f4")),
    "half of complex": (np.zeros(9), lambda x: x[1:].view("c16")),
    "rows of 13 bytes": (raw(130).reshape(10, 13), lambda x: x[:, :4].view("f4")),
    "rows of 3 floats": (np.zeros((10, 3)), lambda x: x[:, :2].view("c16")),
    "backwards": (raw(130).reshape(10, 13), lambda x: x[::-1, 1:5].view("f4")),
}


@pytest.mark.parametrize("name", MISALIGNED)
def test_data_that_a_gpu_would_fault_on(name: str) -> None:
    """A fault ends CUDA for the process."""
    values, view = MISALIGNED[name]
    chunk = put(values, view, front=True)
    bound = OPERATORS["sum"].bind(chunk.dtype)
    with pytest.raises(ArgumentError, match=r"^sum: .* data at address .*; expected multiples of \d+\. Copy the array"):
        emulated_reduce(bound, chunk)
    with (
        Emulator("").installed(),
        pytest.raises(ArgumentError, match=r"^sum: .* data at address .*; expected multiples"),
    ):
        device_scan.scan((chunk,), bound, 0)


def test_results_that_a_gpu_would_fault_on() -> None:
    chunk, out = put(np.zeros(4, "c16")), put(np.zeros(9), lambda x: x[1:].view("c16"), front=True)
    with Emulator("").installed(), pytest.raises(ArgumentError, match=r"^sum: complex128 data at address .*8 with"):
        device_scan.scan((chunk,), OPERATORS["sum"].bind(chunk.dtype), 0, out=out)


def test_strides_along_an_axis_of_one_do_not_matter() -> None:
    chunk = put(raw(13 * 4).reshape(4, 13), lambda x: x[:1, :8].view("f4"))
    assert chunk.strides[0] == 13
    emulated_reduce(OPERATORS["sum"].bind("f4"), chunk)


def test_several_chunks_with_positions_need_places() -> None:
    bound = OPERATORS["argmax"].bind("f4")
    with Emulator("").installed(), pytest.raises(ArgumentError, match=r"^argmax: several chunks without places"):
        device_reduce.reduce_many([(put(np.ones(5, "f4")),)] * 2, bound, (0,))
