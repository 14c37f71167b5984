"""Laws that every row obeys: an identity, associativity, splits that do not matter, and order where it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import CASES, PAIRS, case_id, layouts_of, values
from tiers import in_turn

from gpureduce_dask import Monoid
from gpureduce_dask.chunk import Place
from gpureduce_dask.host import reduce as host


def assert_alike(a, b, bound):
    """States that are equal, up to rounding in their float fields; -0.0 is 0.0 and any NaN is NaN.

    Where a spread is NaN the mean is open (infinity or NaN), and so are the parts of an infinite complex number, the
    exponent of a product that is not finite, and where a complex extremum lies whose equals are the same to the bit.
    """
    closed = ~np.isnan(a["m2"]) if "m2" in a.dtype.names else np.ones(a.shape, bool)
    for name, dtype in bound.fields:
        x, y = a[name], b[name]
        if dtype.kind == "c":
            x, y = (np.where(np.isfinite(v), v, np.nan) for v in (x, y))
        if name.startswith("mean") or name in ("m3", "m4"):
            x, y = x[closed], y[closed]
        if name == "exponent":
            x, y = x[np.isfinite(a["value"])], y[np.isfinite(a["value"])]
        if name == "index" and bound.name in ("min", "max", "nanmin", "nanmax"):
            tied = (a["value"].real == 0) | (a["value"].imag == 0) | np.isnan(a["value"])
            x, y = x[tied], y[tied]
        if dtype.kind in "fcV":
            wide = "c16" if dtype.kind == "c" else "f8"
            rounded = name not in ("value", "low", "high")
            np.testing.assert_allclose(
                x.astype(wide), y.astype(wide), rtol=1e-9, atol=1e-9 if rounded else 0, err_msg=name
            )
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)


@np.errstate(all="ignore")
def states(bound, n=24, special=True, seed=0):
    """A partial of single elements, as ``lift`` makes them."""
    chunks = tuple(values((n,), d, seed + k, special) for k, d in enumerate(bound.elements))
    lifted = bound.monoid.lift(*chunks, np.arange(n))
    return bound.pack(tuple(np.broadcast_to(f, (n,)) for f in lifted))


@pytest.mark.parametrize(("row", "dtypes"), [(r, (d,)) for r, d in CASES] + [(r, d) for r, *d in PAIRS], ids=case_id)
def test_laws(row, dtypes):
    bound = row.bind(*dtypes)
    some = states(bound)
    nothing = bound.identities(some.shape)
    assert_alike(host.combine([nothing, some], bound), some, bound)
    assert_alike(host.combine([some, nothing], bound), some, bound)
    assert_alike(host.combine([nothing, nothing], bound), nothing, bound)

    a, b, c = (states(bound, seed=s) if not bound.indexed else states(bound)[s::3] for s in range(3))
    left = host.combine([host.combine([a, b], bound), c], bound)
    right = host.combine([a, host.combine([b, c], bound)], bound)
    assert_alike(left, right, bound)
    if row.commutative:
        assert_alike(host.combine([c, b, a], bound), left, bound)


@pytest.mark.parametrize(("row", "dtypes"), [(r, (d,)) for r, d in CASES] + [(r, d) for r, *d in PAIRS], ids=case_id)
def test_a_fold_gives_what_lift_and_combine_give(row, dtypes):
    bound = row.bind(*dtypes)
    chunks = tuple(values((5, 7, 6), d, k) for k, d in enumerate(dtypes))
    plain = Monoid(
        name=row.name,
        fields=row.fields,
        identity=row.identity,
        lift=row.lift,
        combine=row.combine,
        finalise=row.finalise,
        result=row.result,
        elements=row.elements,
        commutative=row.commutative,
        arity=row.arity,
        options=row.options,
    ).bind(*dtypes)
    for axes in [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)]:
        assert_alike(host.reduce(chunks, bound, axes), host.reduce(chunks, plain, axes), bound)


@settings(max_examples=12, deadline=None)
@pytest.mark.parametrize("row", sorted({r.name: r for r, _ in CASES}.values(), key=case_id), ids=case_id)
@given(data=st.data())
def test_splits_do_not_matter(row, data):
    dtype = data.draw(st.sampled_from([d for r, d in CASES if r.name == row.name]))
    bound = row.bind(dtype)
    x, axes = data.draw(layouts_of(dtype, least=1))
    whole = host.reduce((x,), bound, axes)
    if not axes:
        return
    axis = data.draw(st.sampled_from(axes if row.commutative else axes[:1]))
    cut = data.draw(st.integers(0, x.shape[axis]))
    parts, places = [], []
    for start, stop in ((0, cut), (cut, x.shape[axis])):
        at = tuple(slice(start, stop) if a == axis else slice(None) for a in range(x.ndim))
        parts.append((x[at],))
        places.append(Place(tuple(start if a == axis else 0 for a in range(x.ndim)), x.shape))
    assert_alike(host.reduce_many(parts, bound, axes, places), whole, bound)
    partials = [host.reduce(p, bound, axes, q) for p, q in zip(parts, places, strict=True)]
    assert_alike(host.combine(partials, bound), whole, bound)
    assert_alike(host.combine_axis(np.concatenate(partials, axis), bound, axis), whole, bound)


# ---- order: affine maps x -> a x + b compose, and composition does not commute


def affine_lift(x, index):
    return x * np.int64(2) + 1, x - 3


def affine_combine(earlier, later):
    return earlier[0] * later[0], earlier[1] * later[0] + later[1]


def affine_finalise(state, dtype):
    return state[0] + 31 * state[1]


AFFINE = Monoid(
    name="affine",
    fields={"a": np.int64, "b": np.int64},
    identity=(1, 0),
    lift=affine_lift,
    combine=affine_combine,
    finalise=affine_finalise,
    commutative=False,
)


@np.errstate(over="ignore")
def composed(x, axes):
    """The maps of each slice composed one after another, in C order."""
    kept = [a for a in range(x.ndim) if a not in axes]
    line = np.transpose(x, [*kept, *axes]).reshape(*(x.shape[a] for a in kept), -1)
    a, b = np.ones(line.shape[:-1], np.int64), np.zeros(line.shape[:-1], np.int64)
    for k in range(line.shape[-1]):
        a, b = affine_combine((a, b), affine_lift(line[..., k], None))
    return np.asarray(a + 31 * b).reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


@settings(max_examples=80, deadline=None)
@given(layouts_of("i8", least=1, most=9))
def test_order_is_kept(drawn):
    x, axes = drawn
    bound = AFFINE.bind(x.dtype.newbyteorder("="))
    np.testing.assert_array_equal(host.finalise(host.reduce((x,), bound, axes), bound), composed(x, axes))


@pytest.mark.parametrize(
    ("shape", "order"), in_turn([(70_001,), (300, 401), (401, 300), (3, 40_000), (40_000, 3)], "CF"), ids=str
)
def test_order_is_kept_over_many_tiles(shape, order):
    x = np.asarray(values(shape, "i8"), order=order)
    bound = AFFINE.bind("i8")
    for axes in {(0,), (x.ndim - 1,), tuple(range(x.ndim))}:
        np.testing.assert_array_equal(host.finalise(host.reduce((x,), bound, axes), bound), composed(x, axes))


def fold_affine(block, index):
    a, b = affine_lift(block[:, 0], None)
    for k in range(1, block.shape[1]):
        a, b = affine_combine((a, b), affine_lift(block[:, k], None))
    return a, b


def test_order_is_kept_by_a_fold_of_ones_own():
    row = Monoid(**{**{f: getattr(AFFINE, f) for f in AFFINE.__dataclass_fields__}, "fold": fold_affine})
    x, bound = values((40, 3000), "i8"), row.bind("i8")
    for axes in [(0,), (1,), (0, 1)]:
        np.testing.assert_array_equal(host.finalise(host.reduce((x,), bound, axes), bound), composed(x, axes))
