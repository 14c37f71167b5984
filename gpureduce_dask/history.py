"""The textbook ladder as a table: one row a step, one idea a step, one file of ``kernels/history`` a step.

A row says where its method comes from, what was wrong with the version that the texts print and what mends it, and what
to look at. :mod:`gpureduce_dask.steps.plans` turns a row into launches; ``python -m gpureduce_dask ladder`` checks,
times and explains them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches

from .errors import OperatorError, message

HARRIS = "Harris, Optimizing Parallel Reduction in CUDA, 2007"
CHENG = "Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014"
WILT = "Wilt, The CUDA Handbook, 2013"
GEMS = "Harris, Sengupta and Owens, Parallel Prefix Sum (Scan) with CUDA, 2007"
TURN = "Ruetsch and Micikevicius, Optimizing Matrix Transpose in CUDA, 2009"

ANY, ANY_BLOCKS = "any n", "any n, as long as the blocks fit on the GPU together"
TAIL = "Took n for a multiple of the block and read past the end; threads now ask whether their element exists."
LOADS = "Took n for a multiple of the tile; what does not exist is loaded as zero."
EDGE = "Took the sides for multiples of the tile's; threads ask whether their element exists."
WARP = "Trusted the lanes of a warp to run in step, which they do not; reads and writes stand between __syncwarp."
ORDER = "Floats met in the order of arrival, and the texts do not say so; the last bits vary from run to run."


@dataclass(frozen=True, slots=True)
class Step:
    """One row. ``kernel`` is a name expression for the main kernel, with ``{T}`` for the type of an element."""

    family: str  # reduce, scan or transpose
    number: int
    name: str
    file: str  # in kernels/history; a module of this package for what has no kernel of its own
    idea: str
    source: str
    mended: str  # what was wrong with the texts' version, and what mends it
    look: str  # what to look at
    takes: str = ANY
    way: str = ""  # how it is launched: a function of steps.plans
    kernel: str = ""
    threads: int = 256
    variant: str = ""
    slow: bool = False  # a single warp or block: timed on fewer elements

    @property
    def label(self) -> str:
        """What the command line and ``strategy=`` call it: ``reduce-08``."""
        return "-".join(filter(None, (self.family, f"{self.number:02}", self.variant)))


def _reduce(number: int, name: str, way: str, idea: str, source: str, mended: str, look: str, **more: int) -> Step:
    """A reduction whose kernel takes the size of a block as a template argument."""
    kernel = f"step_reduce_{number:02}<{{T}}, {more.get('threads', 256)}>"
    file = f"reduce_{number:02}_{name}.cuh"
    return Step("reduce", number, name.replace("_", " "), file, idea, source, mended, look, way=way, kernel=kernel)


_CPU = Step(
    "reduce", 0, "pairwise", "steps/host.py",
    "On the CPU: the second half is added onto the first until one element is left.",
    CHENG, "Dropped the middle element of an odd length; it now waits for the next round.",
    "The error grows with log(n): it is the reference that the others have to meet.",
)  # fmt: skip

_SHARED = (
    _reduce(
        1, "neighbours", "in_place", "Each even thread adds its neighbour's element in place, then each fourth, …",
        CHENG, "Threads without an element left before the barrier, others read past the end; all now stay.",
        "Instructions a warp: all warps walk all rounds, for one lane in two, in four, …",
    ),
    _reduce(
        2, "contiguous", "in_place", "The same pairs, taken by the first threads: whole warps work or rest.",
        CHENG, TAIL, "Whole warps rest, but walk every round and wait at every barrier all the same.",
    ),
    _reduce(
        3, "interleaved", "in_place", "Each thread of the first half adds what lies half a tile away.",
        CHENG, "Needed a block of 2^k threads that were all in use; the tail is tested in every round.",
        "The load throughput against the bytes that DRAM gives: few requests, all of them whole lines.",
    ),
    _reduce(
        4, "static_shared", "tiles", "The tile is read once into shared memory; the input stays as it was.",
        CHENG, LOADS, "Global loads fall to one an element.",
    ),
    Step(
        "reduce", 5, "dynamic shared", "reduce_05_dynamic_shared.cuh",
        "Shared memory is sized by the launch: one kernel for every block of 2^k threads.",
        CHENG, LOADS, "Where memory is declared costs nothing; a bound that the compiler cannot know costs a little.",
        way="dynamic", kernel="step_reduce_05<{T}>",
    ),
    _reduce(
        6, "modulo", "tiles", "Neighbouring pairs in shared memory, chosen by a remainder.",
        HARRIS, LOADS, "Hardly slower than step 8: divergence hides behind a block's one load and its barriers.",
    ),
    _reduce(
        7, "strided", "tiles", "The same pairs taken by the first threads: divergence goes, bank conflicts come.",
        HARRIS, LOADS, "Bank conflicts, the only step here that has many: worse than the divergence that they replace.",
    ),
    _reduce(
        8, "sequential", "tiles", "Sequential addresses: no divergence but in the last warp, and no bank twice.",
        HARRIS, LOADS, "Bank conflicts are gone. Steps 4 and 5 reach this loop on another road.",
    ),
    _reduce(
        9, "first_add", "pairs", "Each thread adds two elements as it loads them.",
        HARRIS, "Needed a multiple of two tiles; each half of the sum is tested.",
        "Half the blocks for the same elements: twice the bytes a warp.",
    ),
    _reduce(
        10, "last_warp", "pairs", "The last six rounds belong to one warp and need no barrier of the block.",
        HARRIS, WARP, "Instructions a warp fall: the other warps leave early.",
    ),
    _reduce(
        11, "unrolled", "pairs", "The block's size is a template argument: no loop is left.",
        HARRIS, WARP, "Nothing is gained any more: compilers unroll such loops by themselves.",
    ),
    _reduce(
        12, "many", "grid", "A grid of fixed size walks the array: each thread adds many elements first.",
        HARRIS, "Read in pairs past the end; each load is tested, or known to exist.",
        "The tree no longer matters; what matters is how many loads are under way. The grid's size is swept.",
    ),
)  # fmt: skip

_TODAY = (
    _reduce(
        13, "shuffle", "grid", "Lanes pass sums through registers: one word of shared memory a warp.",
        CHENG, "Used __shfl without a mask, which newer GPUs refuse; the mask names all lanes.",
        "Shared memory falls, time does not: since step 12 memory is the limit.",
    ),
    Step(
        "reduce", 14, "two pass", "reduce_14_two_pass.cuh",
        "A partial sum a block, then one block adds those; 2^k threads a block.",
        WILT, WARP, "The second launch: a few microseconds, seen in small arrays alone.",
        way="dynamic_grid", kernel="step_reduce_14<{T}>",
    ),
    Step(
        "reduce", 15, "any block", "reduce_15_any_block.cuh",
        "Any number of threads: what exceeds the last power of two is folded onto the front first.",
        WILT, WARP, "Blocks of 200 threads: 8 lanes of the last warp work, warps straddle lines. Right, but slower.",
        way="dynamic_grid", kernel="step_reduce_15<{T}>", threads=200,
    ),
    _reduce(
        16, "atomic_thread", "atomic", "One launch: each thread adds its share to the result.",
        WILT, ORDER, "All threads meet at one address: the atomics are dealt with one after another.",
    ),
    _reduce(
        17, "atomic_block", "atomic", "One launch: a block adds up its share, and adds that to the result.",
        WILT, ORDER, "One atomic a block: too few to be seen.",
    ),
    _reduce(
        18, "last_block", "single", "One launch, always the same bits: the last block to arrive adds the partial sums.",
        WILT, "Had one fence, before the count; another now stands behind it, where the partial sums are read.",
        "As fast as step 17, and the order of additions is fixed. The library ends in this way.",
    ),
    replace(
        _reduce(
            19, "grid_sync", "cooperative", "One launch in which all blocks wait for one another.",
            "CUDA C++ Programming Guide, Cooperative Groups",
            "Needs headers of the toolkit; the barrier is written out, and the launch is a cooperative one.",
            "The wait costs what a second launch would.",
        ), takes=ANY_BLOCKS,
    ),
    Step(
        "reduce", 20, "the library", "api/reductions.py",
        "Loads of 16 bytes, wide accumulators, any layout, axis and operator, one launch; the last block ends it.",
        "this library", "", "It adds float32 in float64, at the speed of memory.",
    ),
)  # fmt: skip


def _scan(
    number: int, name: str, way: str, idea: str, source: str, mended: str, look: str, **more: object
) -> list[Step]:
    """A scan through shared memory: without and with room between what lies there."""
    threads, file = int(str(more.get("threads", 256))), f"scan_{number:02}_{name}.cuh"
    shape = "" if way == "warp" else f", {threads}"
    step = Step("scan", number, name.replace("_", " "), file, idea, source, mended, look, way=way, threads=threads)
    step = replace(step, slow=bool(more.get("slow", False)))
    plain, padded = (f"step_scan_{number:02}<{{T}}, {padded}{shape}>" for padded in ("false", "true"))
    return [replace(step, kernel=plain), replace(step, kernel=padded, variant="padded")]


_SCANS = (
    *_scan(
        1, "warp", "warp", "A warp scans 32 elements in five steps, and walks the array with a carry.",
        WILT, WARP, "One warp of thousands: what a GPU does without parallelism. Padding saves each lane a test.",
        threads=32, slow=True,
    ),
    *_scan(
        2, "block", "walk", "Warps scan their own, one warp scans their totals, all add what is before.",
        WILT, WARP, "One block: one SM's share of the memory at best, and less, because it waits for every tile.",
        threads=1024, slow=True,
    ),
    *_scan(
        3, "fan", "fan", "Scan, then fan: tiles, then (recursively) their totals, which are added to all.",
        WILT, "Took n for a multiple of the tile; elements that do not exist are zero and are not written.",
        "4n bytes of traffic for 2n: the result is written, read and written again.",
    ),
    *_scan(
        4, "reduce_then_scan", "reduce_then_scan", "Reduce, then scan: totals first, then each tile from its base.",
        WILT, "Took n for a multiple of the tile; elements that do not exist are zero and are not written.",
        "3n bytes for 2n. Fewer than step 3, which matters once blocks no longer wait for their barriers.",
    ),
    *_scan(
        5, "two_level", "two_level", "The same in two levels: a fixed number of blocks, a stretch of tiles each.",
        WILT, "Kept its partial sums in one global array of fixed size; they are scratch of the launch.",
        "No recursion, three launches at any size; each block waits for its own tiles in turn.",
    ),
    Step(
        "scan", 6, "Hillis-Steele", "scan_06_hillis_steele.cuh",
        "Every element adds the one 1, 2, 4, … places before it.",
        f"Hillis and Steele, Data Parallel Algorithms, 1986; {GEMS}",
        "Worked within one block; two arrays in global memory trade places, for any n.",
        "n log n additions, log n launches: 28 walks over the array at 2^28.",
        way="doubling", kernel="step_scan_06<{T}, 256>",
    ),
    *_scan(
        7, "blelloch", "fan", "A tree is summed upwards and handed down again: 2n additions.",
        f"Blelloch, Prefix Sums and Their Applications, 1990; {GEMS}",
        "Needed 2^k elements in one block; any n goes tile by tile, as in step 3.",
        "Bank conflicts, without and with padding; more barriers than step 3 in either.",
    ),
    Step(
        "scan", 8, "the library", "api/scans.py",
        "One pass: each tile looks back at what the tiles before it have published; 2n bytes.",
        "Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016",
        "", "Everything is read once and written once.",
    ),
)  # fmt: skip


def _turn(number: int, name: str, idea: str, source: str, mended: str, look: str) -> Step:
    kernel, file = f"step_transpose_{number:02}<{{T}}>", f"transpose_{number:02}_{name}.cuh"
    return Step("transpose", number, name, file, idea, source, mended, look, "any matrix", "turn", kernel)


_TURNS = (
    _turn(1, "global", "Rows are read, columns are written.", TURN, EDGE, "Each store of a warp touches 32 lines."),
    _turn(
        2, "shared", "A tile turns in shared memory: reads and writes both go along rows.",
        TURN, EDGE, "Bank conflicts: 32 neighbours in a column lie in one bank.",
    ),
    _turn(
        3, "padded", "An unused element behind each row of the tile moves every row by a bank.",
        TURN, EDGE, "No conflicts, for one column of shared memory more.",
    ),
    _turn(
        4, "swizzled", "Each row of the tile is permuted by the exclusive or with its number.",
        "the exclusive-or layout of matrix kernels, as in NVIDIA's CUTLASS", "Not in the texts.",
        "No conflicts and no room lost.",
    ),
)  # fmt: skip

STEPS: tuple[Step, ...] = (_CPU, *_SHARED, *_TODAY, *_SCANS, *_TURNS)
FAMILIES = ("reduce", "scan", "transpose")
_BY_LABEL = {step.label: step for step in STEPS}


def get(label: str) -> Step:
    """The step of a label, ``"reduce-08"`` say; OperatorError, with labels that are close, for no such step."""
    if label in _BY_LABEL:
        return _BY_LABEL[label]
    near = " or ".join(get_close_matches(str(label), _BY_LABEL)) or "one of reduce-00 to reduce-20"
    raise OperatorError(message("ladder", f"step {label!r}", near, "python -m gpureduce_dask ladder --list names all."))
