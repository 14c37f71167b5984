"""From a layout to launches: which kernel, with which template arguments, on which grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..operators.monoid import DType
from .column_plans import ColumnPlanner
from .layout import Layout
from .plans import CHUNK, Fold, Launch, Operator, Steps
from .reduce_costs import Effort
from .row_plans import RowPlanner

# Operators that elements which repeat change nothing of.
IDEMPOTENT = ("MinMax<", "PeakToPeak<", "MaxMagnitude<", "Any<", "All<", "Arg<", "ArgValue<", "FirstLast<")
# Of elements none of which can be missing, so that the first and the last are known by where they lie.
NEVER_MISSING = tuple(f"FirstLast<{dtype}" for dtype in ("boolean,", "i8,", "i16,", "i32,", "i64,", "u"))


class Plan:
    """The launches that reduce ``chunks`` chunks of one layout into one partial.

    Attributes
    ----------
    way, seconds : str, float
        How ``launches()`` takes the layout, and how long that is predicted to take.
    """

    way, seconds = "", 0.0

    def __init__(
        self,
        op: Operator,
        layout: Layout,
        phases: tuple[int, ...],
        chunks: int = 1,
        finish: str = "ticket",
        option: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """``phases``: addresses of the walk's first elements modulo 16, one an operand, the same in every chunk."""
        self.option = option
        kind = ColumnPlanner if _columns_lie_together(layout) else RowPlanner
        self._planner = kind(op, layout, phases, chunks, finish, option)

    def launches(self) -> list[Launch]:
        """The launches, in order."""
        self.seconds, self.way, steps = self._planner.least()
        return self._expanded(steps)

    def every(self) -> Iterator[tuple[str, tuple[Effort, ...], list[Launch]]]:
        """The same by every way that takes the layout, with its name and what its predicted seconds depend on."""
        for name, _, way in self._planner.ways():
            steps = way()
            yield name, tuple(step.effort for step in steps if step.effort), self._expanded(steps)

    def _expanded(self, steps: Steps) -> list[Launch]:
        return [launch for step in steps for launch in self._expand(step)]

    def _expand(self, step: Launch | Fold) -> list[Launch]:
        if isinstance(step, Launch):
            return [step]
        op = step.op if step.op.type.startswith("Refold<") else refold(step.op)
        folds = Plan(op, step.layout, (0,), option=self.option).launches()
        reads = [step.reads if launch.reads == CHUNK else launch.reads for launch in folds]
        return [replace(launch, reads=each, writes=step.writes) for launch, each in zip(folds, reads, strict=True)]


def first_of_repeated(op: Operator, layout: Layout) -> Layout:
    """The layout without dimensions that repeat elements, of an operator that these change nothing of."""
    if not op.core.startswith(IDEMPOTENT):
        return layout
    return replace(layout, reduced=tuple(dim for dim in layout.reduced if any(dim.strides)))


def first_or_last(op: Operator, layout: Layout) -> Layout:
    """The layout of the one element of each cell that decides, of an operator that takes it wherever it is known."""
    if not op.type.startswith(NEVER_MISSING):
        return layout
    return layout.ends(last=", true" in op.type)


def along_memory(op: Operator, layout: Layout) -> tuple[Operator, Layout]:
    """The same where positions are looked for along a line that lies backwards: it is walked as memory has it."""
    is_backward = bool(layout.reduced) and layout.reduced[-1].a == -op.itemsizes[0]
    if not op.type.startswith("Arg<") or not is_backward or _columns_lie_together(layout):
        return op, layout
    return replace(op, type=f"Backward<{op.type}>"), layout.line_flipped()


def invariant_operands(layout: Layout) -> tuple[int, ...]:
    """The operands, but for the first, that have one element for a whole line of what kernels read."""
    dims = layout.kept if _columns_lie_together(layout) else layout.reduced
    return tuple(k for k, step in enumerate(dims[-1].strides) if k and not step) if dims else ()


def _columns_lie_together(layout: Layout) -> bool:
    kept, reduced = layout.kept, layout.reduced
    if not kept or not kept[-1].a:
        return False
    return not reduced or not reduced[-1].a or abs(kept[-1].a) < abs(reduced[-1].a)


def refold(op: Operator) -> Operator:
    """The same operator on states."""
    return replace(op, type=f"Refold<{op.type}>", itemsizes=(op.state_bytes,))


def operator(cuda_type: str, itemsizes: Sequence[int], state: DType, commutative: bool, emit: str = "") -> Operator:
    """The operator of elements of these sizes; ``emit`` is the CUDA type of finished cells, states if empty."""
    return Operator(cuda_type, tuple(itemsizes), state.itemsize, commutative, emit)
