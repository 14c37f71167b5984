"""Which chunks one task reduces or scans, which partials one combines, and which worker each is for. Pure: no dask, no
cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

# Groups for each thread where chunks have yet to be made: nobody knows how long that takes, so that the last one to
# finish makes the others wait for a quarter of the time at most.
GROUPS_PER_THREAD = 4
# Where groups would be of more chunks than the first number, and partials are small: as many groups for each thread as
# the second, at most. Small chunks may take long to make, and bars of progress move as groups end.
STEPS = ((8, 8), (32, 16))
# Chunks of a group for dask's own processes, at most: what its task takes of other tasks the parent holds too, and
# pickles. A power of two: a rechunk often cuts a chunk into that many pieces, which then belong to one group.
CHUNKS_BY_PROCESSES = 4
MAX_MADE_BYTES = 2 * 2**30  # of chunks that one group makes: no more has to be made again where a worker is lost,
STEP_BYTES = 2**28  # or these, where partials are small: seconds of reading, so that bars of progress move
RESULTS_BYTES = 2**24  # of the slices that one task makes in turn, which leave it together
STEP_PARTIALS_BYTES = 2**28  # of the partials of so many groups, at most: they may all wait for what merges them
MIN_READ_BYTES = 8 * 2**20  # of chunks in memory that a second thread is worth: a task costs what reading these does
SCAN_TASK_BYTES = 2**24  # of chunks that one task scans in turn: they lie in memory together, and so do their results
# The more of them, the fewer tasks: chunks of 2 MiB take 79 ms by one, 49 by four, 46 by eight (EPYC, 2026-11).
MOST_SCAN_CHUNKS = 64
BUSY = 0.8  # of all threads, from which on lines are scanned in turn: with fewer, to read each chunk twice takes less
# The same where totals are nearly as large as chunks: of 15 chunks of (5, 125814, 1) int32 along their last axis, in
# three lines, by two threads 126 ms in turn and 230 by totals (EPYC, 2026-11).
BUSY_OF_THIN = 0.5
THIN = 2  # elements of such a chunk along the axis, at most
MEMORY_SHARE = 0.25  # of a worker's memory, that the inputs of its tasks may take together
EXCHANGED_BYTES = 2**29  # of partials, at most, that one task takes from all workers

FAN_IN = 32  # partials one combine takes: time follows tasks, not bytes,
FAN_IN_BYTES = 32 * 2**20  # until they are large: a combine holds its inputs at once, and dask keeps them till then.
FAN_IN_LEAST = 4
FAN_IN_UNKNOWN = 8  # where chunk sizes are unknown

# Of partials that go together to all workers that need one: beyond, each chunk's totals take a task of their own.
CARRIED_BYTES = 2**24
LAZY = 8  # chunks of a section that have yet to be made: so many lie in memory, and as many as there are threads
# More of them where they are small: to put tasks in order, dask notes for each section all chunks before it, which for
# 100,000 chunks in sections of eight takes more than 14 GB.
SECTIONS = 64
LAZY_BYTES = 2**26  # of the chunks of such a section

# Of a band, chunks whose rows interleave in C order:
PARTS = 16  # to be scanned apart: each takes a piece of every chunk that lies side by side
PIECE_BYTES = 2**20  # of a chunk: to scan these takes longer than to call for it
CUT_BYTES = 2**22  # of pieces: to copy these takes longer than a task does
TOGETHER_BYTES = 2**20  # of results that are scanned as one: to cut them into parts takes less than to scan each apart

TAKEN_BYTES = 2**24  # that a worker takes from all others of the partials that one task gives for all slices,
BUNDLE_BYTES = 256 * 1024  # and what one such task may give however many workers there are

Coords = tuple[int, ...]
Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Chunks of one slice that one task reduces: where they stand in the slice's C order, and who holds them."""

    members: Sequence[int]
    worker: str | None = None


# ---- slices, and the order of axes


@lru_cache(maxsize=4)  # for a few reductions of one array; of 100,000 chunks each takes 10 MB
def slices_of(numblocks: tuple[int, ...], stage: Axes) -> dict[Coords, list[Coords]]:
    """The chunks of each slice, in C order; slices by coordinates that are 0 along the stage's axes."""
    every = product(*map(range, numblocks))
    outers = product(*([0] * n if a in stage else range(n) for a, n in enumerate(numblocks)))
    found: dict[Coords, list[Coords]] = {}
    for outer, coords in zip(outers, every, strict=True):
        found.setdefault(outer, []).append(coords)
    return found


def stages(commutative: bool, numblocks: tuple[int, ...], axes: Axes) -> list[Axes]:
    """The sets of axes to reduce one after another, first to last.

    A commutative monoid takes all at once. Otherwise the elements keep their C order: the last axes go first, and
    a stage ends at an axis of several chunks, because the rows of chunks that lie side by side interleave.
    """
    if commutative:
        return [axes]
    done: list[Axes] = []
    run: Axes = ()
    for axis in reversed(axes):
        run = (axis, *run)
        if numblocks[axis] > 1:
            done.append(run)
            run = ()
    return [*done, run] if run or not done else done


def bytes_of_largest(chunks: Sequence[Sequence[float]], axes: Axes, cell_bytes: float) -> float:
    """Bytes of the largest partial of chunks that are reduced along some axes, to cells of so many bytes."""
    kept = (sizes for a, sizes in enumerate(chunks) if a not in axes)
    return float(math.prod(max(sizes, default=0) for sizes in kept) * cell_bytes)


def fan_in(partial_bytes: float) -> int:
    """How many partials of so many bytes one combine takes."""
    fits = FAN_IN_UNKNOWN if math.isnan(partial_bytes) else int(FAN_IN_BYTES // max(partial_bytes, 1))
    return min(max(fits, FAN_IN_LEAST), FAN_IN)


def neighbours(split: int | dict[int, int], axes: Axes, numblocks: Sequence[int]) -> int:
    """How many chunks or partials that lie along some axes one task takes, of so many for each axis."""
    return split if isinstance(split, int) else math.prod(split[a] for a in axes if numblocks[a] > 1)


# ---- groups


def even_stretches(chunks: int, size: int) -> list[Group]:
    """A slice's chunks, in stretches of at most ``size`` that differ in length by one at most."""
    count = max(1, -(-chunks // size))
    cuts = [chunks * i // count for i in range(count + 1)]
    return [Group(range(a, b)) for a, b in pairwise(cuts)]


def fixed_stretches(chunks: int, size: int) -> list[Group]:
    """A slice's chunks, in stretches of ``size``; the last one has what is left."""
    return [Group(range(a, min(a + size, chunks))) for a in range(0, max(chunks, 1), size)]


def to_make(chunks: int, slices: int, threads: int, chunk_bytes: float, partial_bytes: float = math.inf) -> int:
    """How many of a slice's chunks one task makes and reduces, one after another, to a partial of so many bytes."""
    most = _most_made(chunks * slices * chunk_bytes, partial_bytes)
    size = _share(chunks, GROUPS_PER_THREAD * threads, slices)
    if most == STEP_BYTES:
        for least, groups in STEPS:
            size = min(size, max(least, _share(chunks, groups * threads, slices)))
    return max(1, min(size, _as_many(most, chunk_bytes)))


def _share(chunks: int, groups: int, slices: int) -> int:
    """Chunks of a slice that a group takes, of so many groups of all slices."""
    return -(-chunks // max(1, -(-groups // slices)))


def slices_per_task(
    chunks: int, slices: int, threads: int, chunk_bytes: float, partial_bytes: float, result_bytes: float
) -> int:
    """How many slices one task makes, one after another, where it makes all the chunks of each and gives results of so
    many bytes: so many that every thread has tasks enough."""
    slice_bytes = chunks * chunk_bytes
    most = min(
        _as_many(_most_made(slice_bytes * slices, partial_bytes), slice_bytes), _as_many(RESULTS_BYTES, result_bytes)
    )
    return max(1, min(slices // (GROUPS_PER_THREAD * threads), most))


def _most_made(nbytes: float, partial_bytes: float) -> int:
    """Bytes of chunks that one task makes, at most, of so many in all, to partials of so many bytes."""
    return STEP_BYTES if _known(nbytes) / STEP_BYTES * partial_bytes <= STEP_PARTIALS_BYTES else MAX_MADE_BYTES


def by_processes(size: int) -> int:
    """The same for dask's own processes: a power of two."""
    return 1 << min(size, CHUNKS_BY_PROCESSES).bit_length() - 1


def in_memory(chunks: int, slices: int, threads: int, chunk_bytes: float, least: float = MIN_READ_BYTES) -> int:
    """How many of a slice's chunks, all in memory already, one task reads: ``least`` bytes or more."""
    worth = max(1, int(chunks * _known(chunk_bytes) // least)) if least else threads
    useful = min(max(1, threads // slices), worth)
    return max(1, -(-chunks // useful))


def are_threads_busy(lines: int, threads: int, length: float) -> bool:
    """True where threads that scan a line each, from its start to its end, wait for the last one but a little: less
    than to read each chunk twice would take. ``length``: elements of a chunk along the axis."""
    busy = BUSY_OF_THIN if length <= THIN else BUSY
    return lines >= busy * threads * -(-lines // threads)


def scan_chunks_per_task(chunk_bytes: float) -> int:
    """How many chunks of a line one task scans, one after another."""
    return min(MOST_SCAN_CHUNKS, _as_many(SCAN_TASK_BYTES, chunk_bytes))


def by_worker(
    holders: Sequence[Sequence[str]],
    threads: Mapping[str, int],
    slices: int,
    chunk_bytes: float,
    memory: Mapping[str, float],
    least: float = MIN_READ_BYTES,
) -> list[Group]:
    """A slice's chunks by the worker that holds them, a group a thread.

    ``holders`` are the workers that hold each chunk; one that nobody holds goes where its predecessor does.
    ``memory`` bounds the bytes of a task's chunks, for they are all in its worker's memory while it runs.
    """
    by_worker: dict[str, list[int]] = {}
    last = next((sorted(h)[0] for h in holders if h), "")
    for i, workers in enumerate(holders):
        if len(workers) == 1:
            last = workers[0]
        elif workers:
            last = min(workers, key=lambda w: (len(by_worker.get(w, ())), w))
        by_worker.setdefault(last, []).append(i)
    groups = []
    for worker, members in sorted(by_worker.items()):
        most = in_memory(len(members), slices, threads.get(worker, 1), chunk_bytes, least)
        room = memory.get(worker, math.inf) * MEMORY_SHARE / threads.get(worker, 1)
        size = max(1, min(most, _as_many(room, chunk_bytes)))
        for part in even_stretches(len(members), size):
            groups.append(Group(as_range([members[i] for i in part.members]), worker))
    return groups


def travel(nbytes: float, homes: int, is_whole: bool) -> bool:
    """True where each of so many workers may take partials of so many bytes from every other; whole results of one
    chunk each are finished where they are, or go to one worker."""
    return nbytes <= (TAKEN_BYTES if is_whole else max(BUNDLE_BYTES, TAKEN_BYTES // homes))


def sets_of_slices(slices: int, threads: int, workers: int, partial_bytes: float) -> list[Sequence[int]]:
    """Slices in sets that one task each completes, of partials of so many bytes that every worker has of each slice: a
    set a thread, or more where partials are large. No sets where most would be of one slice, or sizes are unknown."""
    if workers < 2 or math.isnan(partial_bytes):
        return []
    size = min(-(-slices // threads), int(EXCHANGED_BYTES // max(1, workers * partial_bytes)))
    if size < 2:
        return []
    return [group.members for group in even_stretches(slices, size)]


def smaller(groups: Sequence[Group], size: int) -> list[Group]:
    """The same groups, cut into ones of at most ``size`` chunks."""
    return [
        Group(as_range([g.members[i] for i in part.members]), g.worker)
        for g in groups
        for part in even_stretches(len(g.members), size)
    ]


def runs(members: Sequence[int]) -> list[range]:
    """Members as stretches of neighbours."""
    found: list[range] = []
    for i in members:
        if found and found[-1].stop == i:
            found[-1] = range(found[-1].start, i + 1)
        else:
            found.append(range(i, i + 1))
    return found


def as_range(members: Sequence[int]) -> Sequence[int]:
    """Neighbours as a range: it travels in a graph as two numbers."""
    stretch = range(members[0], members[0] + len(members))
    return stretch if list(members) == list(stretch) else tuple(members)


def _as_many(room: float, chunk_bytes: float) -> int:
    """How many chunks fit; a chunk of unknown or no size always does."""
    each = _known(chunk_bytes)
    return 2**31 if not each or math.isinf(room) else max(1, int(room // each))


def _known(size: float) -> float:
    return 0 if math.isnan(size) else size


# ---- scans


def section(chunks: int, carry_bytes: float, chunk_bytes: float, is_lazy: bool) -> int:
    """How many of a line's chunks get their carries, of so many bytes each, from one task."""
    room = LAZY if math.isnan(carry_bytes) else max(1, int(CARRIED_BYTES // max(carry_bytes, 1)))
    if not is_lazy:
        return room
    held = 0 if math.isnan(chunk_bytes) else LAZY_BYTES // max(chunk_bytes, 1)
    return min(room, max(LAZY, int(min(chunks // SECTIONS, held))))


def ready_groups(chunks: int, size: int) -> list[Sequence[int]]:
    """A line's chunks in groups that are ready together, but for the last: nothing stands behind it."""
    groups = ([i for i in group.members if i + 1 < chunks] for group in even_stretches(chunks, size))
    return [members for members in groups if members]


def shares_of_band(
    band_bytes: float, bands: int, tasks: int, threads: Mapping[str, int], memory: Mapping[str, float]
) -> int:
    """How many tasks gather the rows of a band, whose chunks so many tasks read, each for a worker to scan: enough to
    keep all busy, as long as what is cut for them is worth the tasks, and so many that each has room for them."""
    room = min((limit / threads[w] for w, limit in memory.items()), default=math.inf)
    useful = -(-GROUPS_PER_THREAD * max(1, sum(threads.values())) // bands)
    return max(1, int(min(useful, band_bytes // (CUT_BYTES * tasks))), math.ceil(band_bytes / (room * MEMORY_SHARE)))


def cuts_of_band(height: int, chunks: int, row_bytes: float, chunk_bytes: float) -> list[int]:
    """Where the rows of a band are cut, whose results are of so many bytes: into as many parts as it has chunks, if
    there are rows for it, and unless more than a few would be scanned apart, each in small pieces."""
    count = min(height, chunks)
    if height * row_bytes > PARTS * TOGETHER_BYTES:
        count = min(count, max(PARTS, int(chunk_bytes // PIECE_BYTES)))
    count = max(1, count)
    return [height * i // count for i in range(count + 1)]


def parts_together(nbytes: float) -> int:
    """How many parts of a band, of results of so many bytes, one task scans."""
    return max(1, int(TOGETHER_BYTES // max(nbytes, 1)))
