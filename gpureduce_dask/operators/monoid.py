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

import cloudpickle
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
    """An associative operator with its own state; a row of the table, or a user's own.

    Parameters
    ----------
    name : str
        An identifier; names the keys of the graph (``gr-<name>-...``).
    fields : mapping or tuple of (str, dtype), or callable(*element dtypes) giving one
        The state. A field called ``index`` is an element's position (int64, -1 for none) and is moved to the
        coordinates of the whole array by the trees.
    identity : tuple of scalars, or callable(*element dtypes) giving one
        The state that leaves any other unchanged, one scalar a field.
    lift : callable(x, index) -> tuple of arrays
        Elements to states; ``index`` broadcasts against ``x``. With ``arity=2``: ``lift(x, y, index)``.
    combine : callable(earlier, later) -> tuple of arrays
        Elementwise and associative. ``earlier`` stands left in memory order.
    finalise : callable(state, dtype, **options) -> array
        States to results of ``dtype``.
    result : callable(*input dtypes, dtype=None) -> dtype
        Result dtype; raises :class:`~gpureduce_dask.errors.DtypeError` for a dtype without meaning.
    elements : callable(*input dtypes, dtype=None) -> tuple of dtypes
        The dtypes that elements are cast to before ``lift``.
    commutative : bool
        False keeps left before right on every path.
    arity : int
        How many arrays are read together: 1, or 2 as for a dot product.
    empty : str
        "identity" where an empty slice has an answer, "raise" where it has none.
    fold : callable(*blocks, index) -> tuple of arrays, optional
        A faster host path: blocks of shape (outer, n, inner) to states of shape (outer, inner); ``index`` is
        the position of every element, of shape (n,), or None where the state has no index.
    sweep : callable(*blocks, carry, out) -> tuple of arrays, optional
        A faster host path of scans: blocks as for ``fold``, and the states before them as a tuple of arrays of shape
        (outer, inner). Writes a result for every element to ``out``, and returns the states behind the blocks.
    cuda : callable(*element dtypes) -> str, optional
        The type expression of the operator's struct in ``kernels/monoid``.
    unsafe_cuda : str, optional
        CUDA C++ text defining ``struct <name>``: a ``struct State`` of the fields in their order, and static
        ``GR_HD`` functions ``State identity()``, ``State lift(X x, i64 index)`` and
        ``State combine(State earlier, State later)``. With ``arity=2``: ``lift(Pair<X, Y> p, i64 index)``, which
        reads ``p.a`` and ``p.b``. ``X`` and ``Y`` are the arrays' dtypes: ``boolean``, ``i8`` to ``i64``, ``u8`` to
        ``u64``, ``half``, ``bfloat16``, ``f32``, ``f64``, and ``c64`` and ``c128`` with parts ``re`` and ``im``;
        ``cast<f64>(p.a)`` is the number any real one holds. The text is compiled and run on every worker, so it is
        as powerful as ``exec``. Never build it from text that others supply.
    options : tuple of (name, value)
        Keyword arguments for ``finalise``, part of every key.
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
        """The same monoid with other arguments for ``finalise``."""
        return replace(self, options=tuple(sorted({**dict(self.options), **options}.items())))

    def bind(self, *dtypes: Any, dtype: Any = None) -> Bound:
        """This monoid for arrays of these dtypes, and optionally a result dtype."""
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
        pickled: bytes = cloudpickle.dumps((type(self), self.monoid, self.dtypes, self.dtype))
        return pickled


@lru_cache(maxsize=256)
def _unpickled(pickled: bytes) -> Bound:
    """A bound monoid that was pickled: each task of a graph carries one, which is read once by each process."""
    kind, *rest = pickle.loads(pickled)
    bound: Bound = kind(*rest)
    return bound
