"""The algebra: a monoid is a state, an identity, ``lift``, ``combine`` and ``finalise``.

A state has named fields. On the host the functions of a monoid work on a tuple of arrays, one a field (a
structure of arrays, which NumPy computes with at full speed); a *partial* is the same states packed into one
aligned structured array, byte for byte the CUDA struct.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..errors import ArgumentError, message

DType = np.dtype[Any]
Array = np.ndarray[Any, DType]
State = tuple[Array, ...]
Fields = tuple[tuple[str, DType], ...]

LONGEST_NAME = 64  # of a monoid: it is part of keys, and of the kernel's name
INDEX = "index"  # a field of this name holds an element's position along the reduced axes


def same_dtype(*dtypes: DType, dtype: DType | None = None) -> DType:
    """Result dtype rule: the first input's dtype, or what the caller asked for."""
    return dtypes[0] if dtype is None else dtype


def same_elements(*dtypes: DType, dtype: DType | None = None) -> tuple[DType, ...]:
    """Element rule: elements reach ``lift`` in the dtype they are stored in."""
    return dtypes


@dataclass(frozen=True, kw_only=True)
class Monoid:
    """An associative operator with a state of its own: a row of the table of operators, or one of yours.

    The state has named fields. The functions take and return it as a tuple of NumPy arrays, one for each field. They
    have to be functions of a module, not lambdas, so that they reach workers. On NumPy chunks the functions do the
    work; on CuPy chunks the CUDA text does.

    Parameters
    ----------
    name : str
        An ASCII identifier of at most 64 letters. Keys of graphs begin with ``gr-`` and its words.
    fields : mapping or tuple of (str, dtype), or callable
        The fields of the state and their dtypes, or a function of the elements' dtypes that returns them. A field
        called ``index`` is the position of an element (int64, and -1 for none), which is translated from the chunk to
        the whole array.
    identity : tuple of scalar, or callable
        The state that leaves any other unchanged, a scalar for each field; or a function of the elements' dtypes that
        returns it.
    lift : callable
        ``lift(x, index)`` makes states of elements. ``index`` broadcasts with ``x``. For two arrays it is
        ``lift(x, y, index)``.
    combine : callable
        ``combine(earlier, later)`` makes one state of two, elementwise. It has to be associative. ``earlier`` holds the
        elements that come first in C order.
    finalise : callable
        ``finalise(state, dtype, **options)`` makes results of this dtype of states, as an array.
    result : callable, optional
        ``result(*dtypes, dtype=None)`` is the dtype of results: of the arrays' dtypes and the one that the caller asks
        for. It raises :class:`~gpureduce_dask.errors.DtypeError` for dtypes without meaning. By default it is the one
        asked for, or that of the first array.
    elements : callable, optional
        ``elements(*dtypes, dtype=None)`` is a tuple of the dtypes to which elements are cast before ``lift``. By
        default they are not cast.
    commutative : bool, default True
        False for an operator whose result depends on the order of the elements. They are combined in C order then,
        whatever the chunks.
    arity : int, default 1
        How many arrays are read together: 1, or 2 as for a dot product.
    empty : {"identity", "raise"}, default "identity"
        What the result of no elements is: that of the identity, or an EmptyError.
    fold : callable, optional
        A faster way to reduce NumPy chunks. ``fold(*blocks, index)`` makes states of shape (outer, inner) of blocks of
        shape (outer, n, inner). ``index`` has the positions along ``n``, or is None where the state has none.
    sweep : callable, optional
        A faster way to scan NumPy chunks. ``sweep(*blocks, carry, out)`` takes blocks as ``fold`` does, and the states
        before them, of shape (outer, inner). It writes a result for each element to ``out``, and returns the states
        behind the blocks.
    running : callable, optional
        A faster way to scan NumPy chunks where results are not states. ``running(*blocks, index, carry)`` makes the
        states of every element with all before it, and those behind the blocks; or it gives None for blocks that it
        does not take.
    cuda : callable, optional
        A function of the elements' dtypes that returns the type of the operator in the package's own CUDA sources.
    unsafe_cuda : str, optional
        CUDA C++ text that defines ``struct <name>``, with a ``struct State`` of the fields in their order, and the
        static functions ``State identity()``, ``State lift(X x, i64 index)`` and ``State combine(State earlier, State
        later)``, all marked ``GR_HD``. For two arrays it is ``lift(Pair<X, Y> p, i64 index)``, which reads ``p.a`` and
        ``p.b``. ``X`` and ``Y`` are the arrays' dtypes: ``boolean``, ``i8`` to ``i64``, ``u8`` to ``u64``, ``half``,
        ``bfloat16``, ``f32``, ``f64``, and ``c64`` and ``c128`` with parts ``re`` and ``im``. ``cast<f64>(x)`` is the
        value of any real number. The text is compiled and run on every worker: it is as powerful as ``exec``, and must
        never be built from what others supply.
    options : tuple of (str, value), optional
        Keyword arguments of ``finalise``.

    Raises
    ------
    ArgumentError
        `name` is no such identifier, or `empty` has another value.

    See Also
    --------
    reduction : Reduce by a monoid.
    scan : Running results of a monoid.
    grouped : Reduce groups of elements by a monoid.

    Notes
    -----
    A monoid is a set with an associative operation and an identity. That suffices to cut an array anywhere, to reduce
    the parts at the same time, and to scan them [1]_.

    References
    ----------
    .. [1] Blelloch, G. E., Prefix sums and their applications, report CMU-CS-90-190, Carnegie Mellon University, 1990.

    Examples
    --------
    The mean square, from a state of two fields:

    >>> import dask.array as da
    >>> import numpy as np
    >>> import gpureduce_dask as gr
    >>> def lift(x, index):
    ...     return x.astype("f8") ** 2, np.ones(x.shape)
    >>> def combine(earlier, later):
    ...     return earlier[0] + later[0], earlier[1] + later[1]
    >>> def finalise(state, dtype):
    ...     return (state[0] / state[1]).astype(dtype)
    >>> mean_square = gr.Monoid(
    ...     name="mean_square",
    ...     fields={"total": "f8", "count": "f8"},
    ...     identity=(0.0, 0.0),
    ...     lift=lift,
    ...     combine=combine,
    ...     finalise=finalise,
    ... )
    >>> float(gr.reduction(da.arange(1.0, 4.0, chunks=2), mean_square).compute())
    4.666666666666667
    """

    name: str
    fields: Mapping[str, Any] | Fields | Callable[..., Fields]
    identity: tuple[Any, ...] | Callable[..., tuple[Any, ...]]
    lift: Callable[..., State]
    combine: Callable[[State, State], State]
    finalise: Callable[..., Array]
    result: Callable[..., DType] = same_dtype
    elements: Callable[..., tuple[DType, ...]] = same_elements
    commutative: bool = True
    arity: int = 1
    empty: str = "identity"
    fold: Callable[..., State] | None = None
    sweep: Callable[..., State] | None = None
    running: Callable[..., tuple[State, State] | None] | None = None
    cuda: Callable[..., str] | None = None
    unsafe_cuda: str = field(default="", repr=False)
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        name = str(self.name)
        if not (name is self.name and len(name) <= LONGEST_NAME and name.isidentifier() and name.isascii()):
            expected = f"an ASCII identifier of at most {LONGEST_NAME} letters"
            raise ArgumentError(
                message("Monoid", f"name {name[:LONGEST_NAME]!r}", expected, "Use letters, digits and _.")
            )
        if self.empty not in ("identity", "raise"):
            raise ArgumentError(
                message(self.name, f"empty={self.empty!r}", "'identity' or 'raise'", "Say what an empty slice gives.")
            )
        if isinstance(self.fields, Mapping):
            object.__setattr__(self, "fields", tuple((k, np.dtype(v)) for k, v in self.fields.items()))

    def with_options(self, **options: Any) -> Monoid:
        """Return the same monoid with other keyword arguments for ``finalise``."""
        return replace(self, options=tuple(sorted({**dict(self.options), **options}.items())))

    def bind(self, *dtypes: Any, dtype: Any = None) -> Bound:
        """Return this monoid for arrays of these dtypes, and for results of one if that is given."""
        if len(dtypes) != self.arity:
            raise ArgumentError(
                message(self.name, f"{len(dtypes)} array(s)", f"{self.arity}", "Pass as many arrays as the arity.")
            )
        return Bound(self, tuple(np.dtype(d) for d in dtypes), None if dtype is None else np.dtype(dtype))


@dataclass(frozen=True)
class Bound:
    """A monoid bound to input dtypes: every dtype and the identity are known. Hashable and picklable."""

    monoid: Monoid
    dtypes: tuple[DType, ...]
    dtype: DType | None = None

    def __post_init__(self) -> None:
        self.result  # noqa: B018  raises early for a dtype without meaning

    def __hash__(self) -> int:
        return self._hash  # hashing a row walks all of its functions, and a plan is looked up at every call

    @cached_property
    def _hash(self) -> int:
        return hash((self.monoid, self.dtypes, self.dtype))

    @cached_property
    def known(self) -> dict[Any, Any]:
        """What others have found out about it, by what they asked. It ends with this object, and does not travel."""
        return {}

    @property
    def name(self) -> str:
        return self.monoid.name

    @cached_property
    def elements(self) -> tuple[DType, ...]:
        """Dtypes that elements are cast to before ``lift``."""
        return self.monoid.elements(*self.dtypes, dtype=self.dtype)

    @cached_property
    def fields(self) -> Fields:
        fields = self.monoid.fields
        given = fields(*self.elements) if callable(fields) else fields
        return tuple((name, np.dtype(dtype)) for name, dtype in dict(given).items())

    @cached_property
    def state(self) -> DType:
        """The packed state: an aligned structured dtype, laid out as the CUDA struct."""
        return np.dtype(list(self.fields), align=True)

    @cached_property
    def result(self) -> DType:
        return np.dtype(self.monoid.result(*self.dtypes, dtype=self.dtype))

    @property
    def parts(self) -> tuple[Bound, ...]:
        """The bound monoids that this one is the product of: itself, where it is none."""
        return (self,)

    @cached_property
    def positions(self) -> tuple[str, ...]:
        """The fields that hold an element's position."""
        return tuple(name for name, _ in self.fields if name == INDEX)

    @property
    def indexed(self) -> bool:
        return bool(self.positions)

    @property
    def extra(self) -> tuple[int, ...]:
        """The sizes of axes that a partial has behind those of the chunk: none, but for groups."""
        return ()

    @cached_property
    def cell_bytes(self) -> int:
        """Bytes of a partial for each cell of the chunk that is kept."""
        return self.state.itemsize * math.prod(self.extra)

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        given = self.monoid.identity
        values = given(*self.elements) if callable(given) else given
        return tuple(np.asarray(v).astype(d)[()] for v, (_, d) in zip(values, self.fields, strict=True))

    def identities(self, shape: tuple[int, ...]) -> Array:
        """A partial of this shape that holds nothing but the identity."""
        packed, cell = np.zeros(shape, self.state), np.zeros((), self.state)
        for (name, _), value in zip(self.fields, self.identity, strict=True):
            cell[name] = value
            if any(cell[name].tobytes()):  # zeros are there: to write them takes 20 ms of 64 MiB
                packed[name] = value
        return packed

    def pack(self, state: State) -> Array:
        """A tuple of field arrays to one partial."""
        packed = np.zeros(np.broadcast_shapes(*(np.shape(f) for f in state)), self.state)
        for (name, _), values in zip(self.fields, state, strict=True):
            packed[name] = values
        return packed

    def unpack(self, partial: Array) -> State:
        """A partial to a tuple of field arrays (views)."""
        return tuple(partial[name] for name, _ in self.fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        import cloudpickle

        pickled: bytes = cloudpickle.dumps((type(self), self.monoid, self.dtypes, self.dtype))
        return pickled


@lru_cache(maxsize=256)
def _unpickled(pickled: bytes) -> Bound:
    """A bound monoid that was pickled: each task of a graph carries one, which is read once by each process."""
    kind, *rest = pickle.loads(pickled)
    bound: Bound = kind(*rest)
    return bound
