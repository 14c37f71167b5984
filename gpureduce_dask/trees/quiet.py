"""Results without NumPy's warnings, for callers that stock dask spares them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..monoid import Array, Bound, DType, State

SPARED = "All-NaN slice encountered|Mean of empty slice|Degrees of freedom <= 0"


@dataclass(frozen=True)
class Quiet:
    """A ``finalise`` that does not warn of slices without elements, or with nothing but NaN."""

    finalise: Callable[..., Array]

    def __call__(self, state: State, dtype: DType, **options: Any) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", SPARED, RuntimeWarning)
            return self.finalise(state, dtype, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.finalise)


def quiet(bound: Bound) -> Bound:
    """The same operator, in silence."""
    return Bound(replace(bound.monoid, finalise=Quiet(bound.monoid.finalise)), bound.dtypes, bound.dtype)
