"""What the task of a group of lazy chunks runs: the chain of each chunk, one chunk after another.

Nothing here waits for a GPU: while it reduces one chunk this thread makes the next, and memory that is freed is taken
again in the order of the stream, so that chunks do not pile up. Chunks that threads copy to a GPU are begun some ahead,
for one alone does not keep the threads busy. A second stream would hide the reduction alone, a hundredth of the copy.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar

import numpy as np

from ..device import faults, launch, upload
from ..device.upload import Upload
from ..distributed.handles import Coords, Handle
from ..distributed.private import Alias, GraphNode, Task, TaskRef
from ..operators.monoid import Bound
from . import deferred
from .layers import Key, sources_first
from .reduce_tasks import Folding, GroupLayout, combine, made, reduce_chunk, reduce_chunks

Step = tuple[int, Key, tuple[GraphNode, ...]]  # which group, what it folds next, and how that is made
T = TypeVar("T")
Making = Generator[Upload, None, T]  # of a value: it stops where a copy to a GPU is needed that may not be finished

VIEWS = (deferred.SLICE, np.transpose)  # what a chain's views are made by
AHEAD_BYTES = 512 * 2**20  # of copies to a GPU under way, above which no other chunk is begun


@faults.task
def run(closes: Sequence[Callable[..., Any]], steps: Sequence[Step], names: Sequence[Key], *values: Any) -> Any:
    """Make what groups fold, one after another, and fold it: a chunk is gone before the next one is made."""
    have = dict(zip(names, values, strict=True))
    uses = Counter(key for _, _, nodes in steps for node in nodes for key in node.dependencies)
    uses.update(member for _, member, _ in steps)
    folds = [Folding(close.keywords["bound"]) for close in closes]  # type: ignore[attr-defined]
    begun: deque[tuple[Step, Making[None], int]] = deque()  # in order, and the bytes that each has under way

    def fold_first() -> None:
        (number, member, _), making, _ = begun.popleft()
        _finished(making)
        folds[number].add(have[member], member)
        _drop((member,), uses, have)

    with deferred.group_task_inputs(values):
        for step in steps:
            while begun and sum(under_way for *_, under_way in begun) >= AHEAD_BYTES:
                fold_first()
            making = _make_all(step[2], have, uses)
            # One that takes what steps before it make, as another reduction of their chunk, begins in its turn.
            _, member, nodes = step
            needs = {member, *(key for node in nodes for key in node.dependencies)} - {node.key for node in nodes}
            upload = next(making, None) if needs <= have.keys() else None
            begun.append((step, making, upload.nbytes if upload else 0))
            while begun and not begun[0][2]:
                fold_first()
        while begun:
            fold_first()
    results = tuple(close(fold.pending()) for close, fold in zip(closes, folds, strict=True))
    return results[0] if len(results) == 1 else results


def _make_all(nodes: Iterable[GraphNode], have: dict[Key, Any], uses: Counter[Key]) -> Making[None]:
    for node in nodes:
        yield from _make(node, have)
        _drop(node.dependencies, uses, have)


def _finished(making: Making[T]) -> T:
    """What is made, with every wait on the way."""
    while True:
        try:
            next(making)
        except StopIteration as end:
            found: T = end.value
            return found


@dataclass(frozen=True)
class Chain:
    """The tasks that make a chunk of what ``takes`` names, sources first: views of it, and functions of the elements of
    one view or of several. Each piece has its own cuts for slices."""

    takes: Key
    gives: Key
    nodes: tuple[Task, ...]


@dataclass(frozen=True)
class Piece:
    """A chunk that is a part of one of a handle's: that one's number there, the cuts that make it, and where the array
    that it is reduced as has it."""

    pick: int
    cuts: tuple[Any, ...]
    offset: Coords


@faults.task
def reduce_pieces(
    handles: list[Handle], _anchors: list[Any], pieces: Sequence[Piece], chain: Chain, bound: Bound, layout: GroupLayout
) -> Any:
    """The partial of what a chain makes of parts of the chunks that a handle refers to."""
    (handle,) = handles
    views = [node for node in chain.nodes if node.func in VIEWS]  # which depend on none but others
    steps = [node for node in chain.nodes if node.func not in VIEWS]
    viewed = views[-1].key if views else chain.takes
    known: dict[Any, Bound | None] = {}  # the operator of what the chain computes of a view, by its kind
    together: dict[Bound, list[tuple[Any, Piece]]] = {}  # views of what lies in the handle: they take no memory
    folding, is_here = Folding(bound), handle.is_here()
    with deferred.group_task_inputs(handle.take(p.pick for p in pieces) if is_here else ()):
        for piece in pieces:
            with made(handle.share.keys[piece.pick]):
                have, cuts = {chain.takes: handle.take([piece.pick])[0]}, iter(piece.cuts)
                for node in views:
                    taken = have[node.args[0].key]
                    have[node.key] = taken[next(cuts)] if node.func is deferred.SLICE else node(have)
                view = have[viewed]
                # Of a view that repeats one number, steps take that number, which is no other chunk's.
                kind = type(view), view.dtype, all(any(each.strides) for each in have.values())
                own = bound if not steps else known.get(kind)
                if own is None or not is_here:
                    for node in steps:
                        _finished(_make(node, have))
                    if is_here:
                        own = known[kind] = deferred.operator_of(have[chain.gives], view, bound) if kind[-1] else None
                if is_here and own is not None:
                    together.setdefault(own, []).append((view, piece))
                    continue
                place = () if layout.shape is None else (tuple(slice(at, None) for at in piece.offset),)
                folding.add(reduce_chunk(have[chain.gives], *place, bound=bound, axes=layout.axes, shape=layout.shape))
        for own, found in together.items():
            found.sort(key=lambda each: each[0].shape)
            chunks, offsets = [chunk for chunk, _ in found], [piece.offset for _, piece in found]
            keys = [handle.share.keys[piece.pick] for _, piece in found]
            folding.add(reduce_chunks([chunks], own, offsets, layout, keys))
    return combine(folding.pending(), bound=bound)


def _make(node: GraphNode, have: dict[Key, Any]) -> Making[None]:
    with made(node.key):
        try:
            have[node.key] = yield from _value(node, have)
        except MemoryError:
            if _is_fused(node):  # whose step has been tried again
                raise
            launch.free_pool()
            have[node.key] = yield from _value(node, have)


def _value(node: GraphNode, have: dict[Key, Any]) -> Making[Any]:
    """What a task gives. Tasks that dask fused into one run as they need each other: dask itself would find out their
    order for each chunk again, which takes longer than to launch their kernels."""
    if not _is_fused(node):
        return (yield from _step(node, have))
    inner, out, names, *given = node.args
    arguments = []
    for value in given:
        if isinstance(value, TaskRef):
            arguments.append(have[value.key])
        else:
            arguments.append((yield from _value(value, have)) if isinstance(value, GraphNode) else value)
    return (yield from _execute(inner, out, names, *arguments))


def _is_fused(node: GraphNode) -> TypeGuard[Task]:
    return isinstance(node, Task) and node.has_subgraph()


def _step(node: GraphNode, have: dict[Key, Any]) -> Making[Any]:
    """What one task gives: deferred where the reduction can compute it as it reads, moved by threads to a GPU."""
    if isinstance(node, Alias):
        return have[node.target]
    for key in node.dependencies:
        if isinstance(copy := have[key], Upload):
            yield copy
            have[key] = copy.finish()  # as another step may have done, that takes it too
    if type(node) is Task:
        for way in (deferred.defer_elementwise, deferred.view_of):
            later = way(node, have)
            if later is not None:
                return later
        if _is_upload(node) and upload.takes(array := deferred.materialise(have[node.args[0].key])):
            return Upload(array)
        if deferred.is_reader(node.func):
            return node({key: have[key] for key in node.dependencies})
    return node({key: deferred.materialise(have[key]) for key in node.dependencies})


def _is_upload(node: Task) -> bool:
    """True for ``cupy.asarray`` of an array, which threads do where it is large."""
    cupy = sys.modules.get("cupy")
    is_plain = len(node.args) == 1 and isinstance(node.args[0], TaskRef)
    return cupy is not None and is_plain and deferred.function_of(node) is cupy.asarray


def execute(inner: Mapping[Key, GraphNode], out: Key, names: Sequence[Key], *given: Any) -> Any:
    """The result of tasks that run as one."""
    found = _finished(_execute(inner, out, names, *given))
    return found.finish() if isinstance(found, Upload) else found


def _execute(inner: Mapping[Key, GraphNode], out: Key, names: Sequence[Key], *given: Any) -> Making[Any]:
    values = dict(zip(names, given, strict=True))
    order = list(sources_first(out, inner))
    uses = Counter(key for each in order for key in each.dependencies)
    yield from _make_all(order, values, uses)
    return values[out]


def read_as_computed(node: GraphNode) -> GraphNode:
    """A task that makes a chunk and reduces it to results, so that the reduction computes what the chain puts off; any
    other task as it is."""
    if type(node) is Task and node.has_subgraph() and _reduces(node):
        return Task(node.key, run_whole, *node.args, _data_producer=node.data_producer)
    return node


def _reduces(node: Task) -> bool:
    inner = [each for each in node.args[0].values() if isinstance(each, Task)]
    return any(_reduces(each) if each.has_subgraph() else deferred.is_reader(each.func) for each in inner)


@faults.task
def run_whole(inner: Mapping[Key, GraphNode], out: Key, names: Sequence[Key], *given: Any) -> Any:
    """The task of a chunk that holds all of its slices, with the chain that makes it."""
    return deferred.materialise(execute(inner, out, names, *given))


def _drop(keys: Iterable[Key], uses: Counter[Key], have: dict[Key, Any]) -> None:
    for key in keys:
        uses[key] -= 1
        if not uses[key]:
            del have[key]
