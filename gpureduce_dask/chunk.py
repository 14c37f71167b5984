"""The chunk protocol: reduce, combine, finalise and scan, on the host or on a GPU.

A chunk is a NumPy or a CuPy array; a partial is the packed states of its cells, a structured NumPy array on the
host and CuPy bytes with a last axis of the state's size on a GPU. The side is chosen here, by type, and nowhere
else. CuPy is imported with the first chunk that needs it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .device.batch import Batch
from .device.scan_task import SINGLE_PASS, check_method
from .errors import ArgumentError, DtypeError, message
from .host import masked
from .host import reduce as host_reduce
from .host import scan as host_scan
from .host.masked import MaskedPartial
from .operators import cuda_types
from .operators.grouped import Binned
from .operators.monoid import Bound, DType
from .operators.table import OPERATORS, REFUSING, TELLING
from .place import Place, Places

__all__ = [
    "Batch",
    "Place",
    "Places",
    "add",
    "combine",
    "combine_axis",
    "cut",
    "extents",
    "finalise",
    "gather",
    "is_device",
    "keep_on_device",
    "like",
    "move",
    "partial_bytes",
    "reduce",
    "reduce_each",
    "reduce_many",
    "require_plain_chunk",
    "results",
    "scan",
    "shift_positions",
    "small_to_host",
    "small_to_host_together",
    "to_device",
    "to_host",
]

Chunks = tuple[Any, ...]

# A partial up to this size leaves the GPU as host bytes: it costs less to copy and send than to keep on a device.
SMALL = 64 * 1024
NUMPY = (np.ndarray, np.generic)
_here = threading.local()


def reduce(chunks: Chunks, bound: Bound, axes: tuple[int, ...], place: Place | None = None, masks: bool = True) -> Any:
    """The partial of one chunk (one array for each of the monoid's arity), of size 1 along every axis in ``axes``.

    Without ``masks`` a masked chunk is read as a scan reads it, or refused.
    """
    if isinstance(bound, Binned):
        return _bins().reduce_many([chunks], bound, axes, None if place is None else [place])
    chunks = admit(chunks if masks else masked.filled(chunks, bound), bound, masks)
    if _is_masked(chunks[0]):
        return masked.reduce(chunks[0], bound, axes, place)
    return _side(is_device(chunks[0])).reduce(chunks, bound, axes, place)


def add(before: Any, chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...], place: Place | None = None) -> Any:
    """A partial, or none, and what chunks of a host add to it, where it is. With a place there is but one chunk."""
    admitted = [admit(each, bound) for each in chunks]
    if place is None:
        return host_reduce.reduce_side_by_side(admitted, bound, axes, before)
    return host_reduce.reduce(admitted[0], bound, axes, place, before)


def partial_bytes(chunks: Chunks, bound: Bound, axes: tuple[int, ...]) -> int:
    """Bytes of a host chunk's partial where it had better be added to the one before it; 0 for others, as of masked
    chunks and of lists."""
    cells = math.prod(int(n) for a, n in enumerate(np.shape(chunks[0])) if a not in axes)
    if (
        isinstance(bound, Binned)
        or cells <= host_reduce.PENDING_CELLS
        or any(is_device(c) or _is_masked(c) or isinstance(c, list | tuple) for c in chunks)
    ):
        return 0
    return cells * bound.state.itemsize * math.prod(bound.extra)


def reduce_many(
    chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...], places: Sequence[Place] | None = None
) -> Any:
    """The partial of several chunks folded left to right, with one launch on a GPU."""
    if isinstance(bound, Binned):
        return _bins().reduce_many(chunks, bound, axes, places)
    batch = chunks if isinstance(chunks, Batch) else gather(chunks, bound)
    if any(_is_masked(c[0]) for c in batch):
        each: Sequence[Place | None] = places or [None] * len(batch)
        return combine([reduce(c, bound, axes, p) for c, p in zip(batch, each, strict=True)], bound)
    return _side(batch.device).reduce_many(batch, bound, axes, places)


def reduce_each(
    chunks: Sequence[Chunks], bound: Bound, axes: tuple[int, ...], places: Sequence[Place] | None = None
) -> list[Any]:
    """The totals of a scan's chunks, one each. Small ones of a GPU leave it together, as host bytes."""
    batch = gather([masked.filled(each, bound) for each in chunks], bound, masks=False)
    if not batch.device:
        each: Sequence[Place | None] = places or [None] * len(batch)
        return [host_reduce.reduce(c, bound, axes, p) for c, p in zip(batch, each, strict=True)]
    from .device.reduce import reduce_each

    found: list[Any] = []
    for partials in reduce_each(batch, bound, axes, places):
        found.extend(to_host(partials, bound) if partials.nbytes <= SMALL * len(partials) else partials)
    return found


def gather(chunks: Sequence[Chunks], bound: Bound, masks: bool = True) -> Batch:
    """Chunks made ready for :func:`reduce_many`, by any monoid that is bound to the same dtypes."""
    admitted = [admit(each, bound, masks) for each in chunks]
    sides = {is_device(each[0]) for each in admitted}
    if len(sides) > 1:
        admitted = [tuple(move(c, True) for c in each) for each in admitted]
    return Batch(admitted, True in sides)


def results(chunks: Chunks, bound: Bound, axes: tuple[int, ...]) -> Any:
    """The results of a chunk that holds all of its slices, of size 1 along ``axes``; on a GPU in one launch."""
    if isinstance(bound, Binned):
        return finalise(reduce(chunks, bound, axes), bound)
    chunks = admit(chunks, bound, masks=True)
    device = is_device(chunks[0])
    if _is_masked(chunks[0]):
        return finalise(masked.reduce(chunks[0], bound, axes), bound)
    if not device or (_finishes_on_device(bound) and bound.monoid.finalise not in REFUSING):
        return _side(device).reduce(chunks, bound, axes, final=True)
    return finalise(_side(device).reduce(chunks, bound, axes), bound)


def scan(
    chunks: Chunks,
    bound: Bound,
    axis: int,
    carry: Any = None,
    exclusive: bool = False,
    reverse: bool = False,
    resets: Any = None,
    out: Any = None,
    place: Place | None = None,
    with_total: bool = True,
    method: str = SINGLE_PASS,
) -> tuple[Any, Any]:
    """A chunk's running results along an axis, and the partial behind each line, of size 1 along the axis.

    ``carry`` is a partial that stands before each line; None stands for the identity. An exclusive result leaves its
    own element out; ``reverse`` starts at the end of each line. ``resets`` is an array of bool that broadcasts to the
    chunk's shape, true where what stands before an element is forgotten, the carry included. ``out`` takes the results
    and may be the chunk itself. ``place`` is where the chunk lies, for a state with an index. Without ``with_total`` a
    GPU is spared to write the partial, which is then None. ``method`` is how a GPU scans: ``"look-back"``, a single
    pass, or ``"reduce-then-scan"``, the textbook's; the host has one. What is masked has masked results, of which
    ``out`` knows nothing.
    """
    check_method(method)
    mask = np.ma.getmask(chunks[0]) if _is_masked(chunks[0]) else None
    chunks = admit(masked.filled(chunks, bound), bound)
    device = is_device(chunks[0])
    if carry is not None:
        carry = to_device(carry, bound) if device else to_host(carry, bound)
    if resets is not None:
        require_plain_chunk(bound.name, resets)
        resets = move(resets, device)
    if not device:
        array, total = host_scan.scan(chunks, bound, axis, carry, exclusive, reverse, resets, out, place)
        return array if mask is None else np.ma.masked_array(array, mask), total
    from .device import scan as device_scan

    return device_scan.scan(chunks, bound, axis, carry, exclusive, reverse, resets, out, with_total, place, method)


def combine(partials: Sequence[Any], bound: Bound) -> Any:
    """Partials of one shape to one partial, cell by cell; the first is the earliest."""
    bound = bound.cells if isinstance(bound, Binned) else bound
    if any(isinstance(p, MaskedPartial) for p in partials):
        return masked.combine([to_host(p, bound) for p in partials], bound)
    device = any(is_device(p) for p in partials)
    if device and not all(is_device(p) for p in partials):
        device = any(is_device(p) and p.nbytes > SMALL for p in partials)
        partials = [to_device(p, bound) if device else to_host(p, bound) for p in partials]
    return _side(device).combine(partials, bound)


def combine_axis(partial: Any, bound: Bound, axis: int) -> Any:
    """A partial folded in order along one of its own axes, which keeps size 1."""
    bound = bound.cells if isinstance(bound, Binned) else bound
    if isinstance(partial, MaskedPartial):
        return masked.combine_axis(partial, bound, axis)
    return _side(is_device(partial)).combine_axis(partial, bound, axis)


def finalise(partial: Any, bound: Bound) -> Any:
    """A partial's results, of the same shape and side."""
    if isinstance(bound, Binned):
        return _bins().finalise(partial, bound)
    if isinstance(partial, MaskedPartial):
        return masked.finalise(partial, bound)
    if not is_device(partial):
        return host_reduce.finalise(partial, bound)
    if _finishes_on_device(bound):
        values = _side(True).finalise(partial, bound)
        if bound.monoid.finalise not in REFUSING or _all_answer(values):
            return values
    return move(host_reduce.finalise(to_host(partial, bound), bound), True)


def _all_answer(values: Any) -> bool:
    """True where every result on a GPU is a finite number, or a position. Waits for the GPU to look at them."""
    probe = OPERATORS["min" if values.dtype.kind == "i" else "norminf"].bind(values.dtype)
    partial = _side(True).reduce((values,), probe, tuple(range(values.ndim)))
    extreme = host_reduce.finalise(to_host(partial, probe), probe)
    return bool(np.isfinite(extreme) & (extreme >= 0))


def cut(partial: Any, bound: Bound, offset: int) -> Any:
    """The partial of one monoid out of that of a product, whose state holds its own from byte ``offset`` on."""
    if not is_device(partial):
        return partial.getfield(bound.state, offset)
    import cupy

    from .device import contiguous

    with cupy.cuda.Device(partial.data.device_id):
        return contiguous.in_c_order(partial[..., offset : offset + bound.state.itemsize])


def shift_positions(partial: Any, bound: Bound, axes: tuple[int, ...], place: Place | None) -> Any:
    """A partial of a monoid that does not commute, on the host where it changes, whose positions count over all reduced
    axes.

    A fold counts along ``axes`` alone, the last of them: here come the steps of those ahead, which wait for a later
    stage and have kept their size in the partial. The place has a size along reduced axes alone.
    """
    if place is None or not bound.positions or isinstance(bound, Binned):
        return partial
    reduced = tuple(a for a, n in enumerate(place.shape) if n)
    steps = {a: s for a, s in zip(reduced, place.steps(reduced), strict=True) if a not in axes}
    if not steps:
        return partial
    if isinstance(partial, MaskedPartial):
        return masked.with_states(partial, shift_positions(partial.states, bound, axes, place))
    found = to_host(partial, bound).copy()
    for axis, step in steps.items():
        along = place.offsets[axis] + np.arange(found.shape[axis], dtype=np.int64)
        shift = (along * step).reshape([-1 if a == axis else 1 for a in range(found.ndim)])
        for name in bound.positions:
            found[name] += np.where(found[name] < 0, 0, shift)
    return found


def extents(partial: Any) -> tuple[int, ...]:
    """How many cells a partial has along each axis of the array it came from."""
    shape: tuple[int, ...] = partial.shape
    return shape[:-1] if is_device(partial) else shape


def is_device(array: Any) -> bool:
    """True for CuPy arrays."""
    return type(array).__module__.partition(".")[0] == "cupy"


def small_to_host(partial: Any, bound: Bound) -> Any:
    """A small device partial as a host partial; any other unchanged."""
    return to_host(partial, bound) if _is_small(partial) and not getattr(_here, "keeps", False) else partial


@contextmanager
def keep_on_device() -> Iterator[None]:
    """Partials stay where they are for now, in this thread: they are copied together behind it."""
    before, _here.keeps = getattr(_here, "keeps", False), True
    try:
        yield
    finally:
        _here.keeps = before


def small_to_host_together(partials: Sequence[Any], bound: Bound) -> list[Any]:
    """The small device partials among some as host partials, with one wait for all of a GPU; others unchanged."""
    found = list(partials)
    of_device: dict[int, list[int]] = {}
    for i, p in enumerate(found):
        if _is_small(p):
            of_device.setdefault(p.data.device_id, []).append(i)
    for small in of_device.values():
        from .device import launch

        for i, states in zip(small, launch.to_host([found[i] for i in small]), strict=True):
            found[i] = states.view(bound.state)[..., 0]
    return found


def _is_small(partial: Any) -> bool:
    return is_device(partial) and bool(partial.nbytes <= SMALL)


def to_host(partial: Any, bound: Bound) -> Any:
    """A partial as a structured NumPy array."""
    return partial.get().view(bound.state)[..., 0] if is_device(partial) else partial


def to_device(partial: Any, bound: Bound) -> Any:
    """A partial as CuPy bytes on the current device."""
    if is_device(partial):
        return partial
    packed = np.ascontiguousarray(partial).reshape(partial.shape)
    return move(np.frombuffer(packed.tobytes(), np.uint8).reshape(*packed.shape, bound.state.itemsize), True)


def move(array: Any, device: bool) -> Any:
    """An array of elements as a CuPy array (``device``) or as a NumPy array."""
    if is_device(array) == device:
        return array
    if not device:
        return array.get()
    import cupy

    return cupy.asarray(array)


def like(array: Any, other: Any) -> Any:
    """An array of elements on the side that ``other`` is on."""
    return move(array, is_device(other))


def _finishes_on_device(bound: Bound) -> bool:
    """True where the CUDA struct has a ``finalise``, for results that CUDA has a type for, and that tell all."""
    if bound.monoid.finalise in TELLING:
        return False
    return not bound.monoid.unsafe_cuda and cuda_types.element(bound.result) is not None


def _bins() -> Any:
    from . import chunk_groups

    return chunk_groups


def _side(device: bool) -> Any:
    if not device:
        return host_reduce
    from .device import reduce as gpu

    return gpu


def _is_masked(chunk: Any) -> bool:
    return isinstance(chunk, np.ma.MaskedArray)


def admit(chunks: Chunks, bound: Bound, masks: bool = False) -> Chunks:
    """Chunks of one shape on one side, of the dtypes that the graph was built for; with ``masks``, masked ones too
    where a reduction takes them."""
    if masks and _is_masked(chunks[0]) and masked.takes(bound):
        data = _admit_one(np.ma.getdata(chunks[0]), bound.dtypes[0], bound.name)
        return (np.ma.masked_array(data, np.ma.getmask(chunks[0])),)
    arrays = tuple(_admit_one(c, d, bound.name) for c, d in zip(chunks, bound.dtypes, strict=True))
    if len(arrays) == 1:
        return arrays
    if len({a.shape for a in arrays}) > 1:
        shapes = " and ".join(str(a.shape) for a in arrays)
        raise ArgumentError(
            message(bound.name, f"chunks of shapes {shapes}", "one shape", "Call compute_chunk_sizes() and rechunk.")
        )
    device = any(is_device(a) for a in arrays)
    return tuple(move(a, device) for a in arrays)


def require_plain_chunk(name: str, chunk: Any) -> None:
    """Raise for masked, sparse and other chunks that an array's meta keeps silent about."""
    if is_device(chunk):
        return
    if isinstance(chunk, np.ma.MaskedArray) or (hasattr(chunk, "dtype") and not isinstance(chunk, NUMPY)):
        raise DtypeError(
            message(
                name,
                f"a chunk of type {type(chunk).__name__} where the array's meta says NumPy or CuPy",
                "chunks of the meta's type",
                "Pass meta= to the call that made the array.",
            )
        )


def _admit_one(chunk: Any, dtype: DType, name: str) -> Any:
    require_plain_chunk(name, chunk)
    if not is_device(chunk):
        chunk = np.asarray(chunk)
    if chunk.dtype in (dtype, dtype.newbyteorder()):
        return chunk
    # A float may lose digits that the array has no room for; an integer or a time would become another.
    rule: Any = "safe" if dtype.kind in "biumM" else "same_kind"
    if not np.can_cast(chunk.dtype, dtype, rule):
        raise DtypeError(
            message(
                name,
                f"a chunk of {chunk.dtype} in an array of {dtype}",
                "chunks of the array's dtype",
                "Pass the right dtype= to the call that made the array.",
            )
        )
    return chunk.astype(dtype)
