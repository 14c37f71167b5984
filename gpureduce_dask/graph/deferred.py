"""Elementwise steps of a chunk's chain deferred until the reduction, which computes them as it reads.

Between the functions that make a chunk and the one that reduces it stand those of a table: Python's operators, NumPy's
functions of elements, casts. What they would give is written down instead, as long as the arrays are few. The reduction
traces it into its own kernel; anything else that wants it gets the array that dask would have made.
"""

from __future__ import annotations

import math
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import chunk
from ..chunk import is_device
from ..configuration import setting
from ..distributed import private
from ..distributed.private import DataNode, Task, TaskRef
from ..expressions import functions
from ..expressions.deferred import DeferredArray, program_of
from ..expressions.mapped import map_of, mapped_parts
from ..operators.grouped import Binned
from ..operators.monoid import Bound
from ..operators.product_monoid import Product
from . import graph_arrays as da

# Where the inputs of a group's task lie on a GPU, while it runs.
_inputs: ContextVar[frozenset[int] | None] = ContextVar("gpureduce_inputs", default=None)


def is_group_task() -> bool:
    """True where a group's task makes and reduces its chunks."""
    return _inputs.get() is not None


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def group_task_inputs(inputs: Sequence[Any] = ()) -> AbstractContextManager[None]:
    """What runs in the block is part of a group's task, which has these inputs."""
    return _set(_inputs, frozenset(map(_memory, filter(is_device, inputs))))


def are_inputs(blocks: Sequence[Any]) -> bool:
    """True for arrays of a GPU that are inputs of the group's task or views of them: to hold them takes no memory."""
    inputs = _inputs.get() or ()
    return all(is_device(block) and _memory(block) in inputs for block in blocks)


def _memory(x: Any) -> int:
    """What tells the memory of a GPU's array from that of others, while it is there."""
    return id(getattr(x.data, "mem", x))


MIN_ELEMENTS = 1 << 12  # elements of an array below which its temporaries cost nothing
KEPT_NUMBERS = 16  # single numbers of a GPU that are remembered
MAX_ARRAYS = 4  # arrays that are read together
OPERATORS = "add sub mul truediv floordiv mod pow neg pos abs invert and_ or_ xor lshift rshift lt le gt ge eq ne"


def _functions_of_chunks() -> tuple[Any, Any]:
    """What ``astype`` and slicing of dask's arrays run on each chunk."""
    arrays = da.from_array(np.zeros(1, "f4")).astype("f8"), da.zeros(4)[::2]
    cast, cut = (getattr(dict(x.__dask_graph__()).get((x.name, 0)), "func", None) for x in arrays)
    return cast if getattr(cast, "__name__", "") == "astype" else np.ndarray.astype, cut


CAST, SLICE = _functions_of_chunks()
PLAIN = frozenset({*functions.UFUNCS, abs, CAST, np.where, np.clip, np.real, np.imag, np.angle})
PLAIN |= {getattr(operator, name) for name in OPERATORS.split()}

_fuses: ContextVar[bool] = ContextVar("gpureduce_fuse", default=True)


def fuses() -> bool:
    """True where reductions that are built now compute what they read: accelerate, and then dask's configuration."""
    return _fuses.get() and setting("fuse") in (None, True)


def allowed(fuse: bool) -> AbstractContextManager[None]:
    """Reductions that are built in the block compute what they read, or do not."""
    return _set(_fuses, fuse)


_readers: set[Any] = set()


def reads(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a task's function that computes deferred steps as it reads."""
    _readers.add(function)
    return function


def is_reader(function: Any) -> bool:
    """True for a marked function, with its options or without."""
    return getattr(function, "func", function) in _readers


def kept_bytes(block: Any) -> int:
    """The bytes of the memory that an array keeps: of a slice on a GPU those of the whole array, as CuPy says."""
    memory = getattr(block.data, "mem", None)
    size: int = block.nbytes if memory is None else memory.size
    return size


@dataclass(frozen=True, eq=False)
class UnreducedChunk:
    """A chunk that is reduced when it is folded with others of its group: once there are so many bytes of them, which
    is never where it takes no memory."""

    blocks: tuple[Any, ...]
    bound: Bound
    axes: tuple[int, ...]
    place: Any
    together_bytes: float

    @property
    def nbytes(self) -> int:
        """Of the memory that it keeps while it waits."""
        return sum(map(kept_bytes, self.blocks))

    @property
    def is_alone(self) -> bool:
        """True where its place is not of others: groups find their labels by the place of each."""
        is_bounded = self.together_bytes < math.inf
        return self.place is not None and is_bounded and not isinstance(self.bound, Binned)

    def follows(self, other: UnreducedChunk) -> bool:
        """True where both may be reduced in one call."""
        if self.bound != other.bound or self.together_bytes != other.together_bytes or self.is_alone or other.is_alone:
            return False
        pairs = zip(self.blocks, other.blocks, strict=True)
        return self.together_bytes == math.inf or all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)


def defer_elementwise(node: Task, have: Any) -> DeferredArray | None:
    """What a task would give, where it is of the table and works on large arrays; else None."""
    function = node.func
    if function_of(node) not in PLAIN:
        return None
    args = tuple(_argument(a, have) for a in node.args)
    if not any(isinstance(a, DeferredArray) or _is_array(a) for a in args):
        return None
    args = _with_numbers(args)
    leaves: dict[int, Any] = {}
    for a in args:
        if isinstance(a, DeferredArray):
            leaves.update(a.leaves)
        elif _is_array(a):
            leaves[id(a)] = a
        elif not isinstance(a, int | float | complex | np.generic) and not (type(a) is np.ndarray and a.ndim == 0):
            return None
    sides = {is_device(x) for x in leaves.values()}
    if len(sides) != 1 or len(leaves) > MAX_ARRAYS:
        return None
    if max(x.size for x in leaves.values()) < MIN_ELEMENTS:
        return None
    return DeferredArray(function, args, dict(node.kwargs), leaves, True in sides)


def view_of(node: Task, have: Any) -> Any:
    """A slice of a group's input on a GPU, where a task is one; else None. dask copies what is a small part of a chunk,
    so that the rest need not stay: inputs do."""
    if node.func is not SLICE or len(node.args) != 2:
        return None
    x, index = (_argument(a, have) for a in node.args)
    is_plain = isinstance(index, tuple) and all(isinstance(each, slice | int) for each in index)
    return x[index] if is_plain and is_device(x) and are_inputs((x,)) else None


def function_of(node: Task) -> Any:
    """What a task calls, in the wrapper that dask puts about some."""
    return private.enforced_function(node.func, node.kwargs)


_numbers: OrderedDict[int, tuple[Any, Any]] = OrderedDict()  # a GPU's, by the array that holds each


def _with_numbers(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with numbers in place of arrays that hold one number each: those of a GPU that have no axis, and those
    of the host that repeat it, as ``zeros_like`` does, among others of the result's shape."""
    args = tuple(map(_number, args))
    if not any(map(_repeats_one, args)):
        return args
    rest = tuple(a.flat[0] if _repeats_one(a) else a for a in args)
    return rest if _shape(rest) == _shape(args) else args


def _repeats_one(x: Any) -> bool:
    return type(x) is np.ndarray and _is_array(x) and x.size > 1 and not any(x.strides)


def _shape(args: tuple[Any, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(a.shape for a in args if isinstance(a, DeferredArray) or _is_array(a)))


def _number(x: Any) -> Any:
    """A GPU's single number as one on the host, such as the mean that all chunks are compared with: asked for once."""
    if not is_device(x) or x.ndim:
        return x
    found = _numbers.get(id(x))
    if found is None or found[0] is not x:
        found = _numbers[id(x)] = x, x.get()[()]
        while len(_numbers) > KEPT_NUMBERS:
            _numbers.popitem(last=False)
    return found[1]


def _is_array(x: Any) -> bool:
    """True for NumPy's and CuPy's own arrays, of numbers."""
    return (type(x) is np.ndarray or is_device(x)) and x.ndim > 0 and x.dtype.kind in "biufc" and x.dtype.isnative


def _argument(value: Any, have: Any) -> Any:
    if isinstance(value, TaskRef):
        return have[value.key]
    return value.value if isinstance(value, DataNode) else value


def materialise(x: Any) -> Any:
    """The array that dask would have made, or a chunk's partial; anything else itself."""
    if isinstance(x, UnreducedChunk):
        return reduce_deferred([x])
    return x.compute() if isinstance(x, DeferredArray) else x


def reduce_deferred(chunks: Sequence[UnreducedChunk], before: Any = None) -> Any:
    """The partial of chunks of a host that follow each other, added to the one before, where it lies; or of chunks of a
    GPU of one operator, those of each shape together."""
    first = chunks[0]
    if not (is_device(first.blocks[0]) or isinstance(first.bound, Binned)):
        return chunk.add(before, [c.blocks for c in chunks], first.bound, first.axes, first.place)
    alike = sorted(chunks, key=lambda c: [block.shape for block in c.blocks])
    places = None if first.place is None else [c.place for c in alike]
    partial = chunk.reduce_many([c.blocks for c in alike], first.bound, first.axes, places)
    partial = chunk.shift_positions(partial, first.bound, first.axes, first.place)
    return partial if before is None else chunk.combine([before, partial], first.bound)


def read_with(blocks: Sequence[Any], bound: Bound, fuse: bool = True) -> tuple[tuple[Any, ...], Bound]:
    """The arrays to read, and the operator of what was deferred; the blocks that dask would have made where a kernel
    cannot compute it, or without ``fuse``."""
    if not (fuse and any(isinstance(b, DeferredArray) and b.function is not None for b in blocks)):
        return tuple(map(materialise, blocks)), bound
    found = _traced(blocks, bound)
    return (tuple(map(materialise, blocks)), bound) if found is None else found


def operator_of(x: Any, leaf: Any, bound: Bound) -> Bound | None:
    """The operator that reduces what was deferred, from one array alone; None where it takes others, or nothing was."""
    if not isinstance(x, DeferredArray) or [*x.leaves] != [id(leaf)]:
        return None
    found = _traced((x,), bound)
    return None if found is None else found[1]


def _traced(blocks: Sequence[Any], bound: Bound) -> tuple[tuple[Any, ...], Bound] | None:
    leaves: dict[int, Any] = {}
    shapes = set()
    for b in blocks:
        is_open = isinstance(b, DeferredArray) and b.function is not None
        leaves.update(b.leaves if is_open else {id(materialise(b)): materialise(b)})
        shapes.add(b.shape)
    arrays = list(leaves.values())
    if len(shapes) > 1 or len(arrays) > MAX_ARRAYS or not all(map(_is_array, arrays)):
        return None
    if type(bound) not in (Bound, Product) or any(map_of(part) for part in bound.parts):
        return None
    (shape,) = shapes
    arrays.sort(key=lambda a: a.shape != shape)  # a kernel goes by the first, which should not lie still
    program = program_of([b if isinstance(b, DeferredArray) and b.function else materialise(b) for b in blocks], arrays)
    if program is None or program.results != bound.dtypes:
        return None
    spread = tuple(a if a.shape == shape else np.broadcast_to(a, shape) for a in arrays)
    return spread, mapped_parts(program, bound)
