"""dask's hook for optimising arrays: tasks that move into those which need them, in a graph that is about to run.

Groups whose chunks have yet to be made take in the tasks that make them, and make, reduce and free a group's chunks one
after another. Only when a graph is about to run is it known what else needs a chunk. So the graph is built with a task
a chunk, right as it is, and the hook moves into each group the tasks that nothing else needs. A chunk that something
else needs too stays a task of its own; where that is another reduction of the same chunks, one task makes them for
both. Scans take in elementwise steps, and the task that joins an array's blocks those that finish small ones.
"""

from __future__ import annotations

import operator
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any, cast

import dask
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from ..distributed import private, workers
from ..distributed.private import Alias, DataNode, GraphNode, List, Task, TaskRef
from ..planner import even_stretches
from . import deferred, group_task, scan_tasks
from . import graph_arrays as da
from .group_task import Step
from .layers import GroupNode, Key, LazyTasks, PlacedGroupNode, Tasks, needed_alone, needs_of, sources_first, users_of
from .reduce_tasks import combine, finalise, pick
from .scan_tasks import Scan

Graph = dict[Key, GraphNode]

# What the chains of a group may share with other tasks, and wait for: so many results, such as the mean that all
# chunks are compared with, and one more for so many chunks. Did each chunk bring one, all would lie in memory at once.
SHARED = 4
CHUNKS_A_SHARED = 8
# The same of tasks for dask's own processes, whose parent holds what a task takes once more, pickled: so many results
# that several chunks share, and so many that one chunk alone takes.
SHARED_BY_PROCESSES, ALONE_BY_PROCESSES = 3, 1
NAMES_SHOWN = 3  # of the reductions that one task makes the chunks for


class Optimize:
    """dask's optimisation of arrays, then ours. In a process without this package it is dask's alone."""

    def __call__(self, dsk: Any, keys: Any, **kwargs: Any) -> Any:
        is_ours = any(str(name).startswith("gr-") for name in getattr(dsk, "layers", ()))
        if not is_ours or dask.config.get("optimization.fuse.active") is False:
            return da.optimize(dsk, keys, **kwargs)
        wanted = set(flat_keys(keys))
        dsk = _as_kept(dsk, wanted)
        one = _of_one_layer(dsk, wanted)
        known = set() if one is not None else workers.known_keys(dsk, wanted)
        low: Any = da.optimize(dsk, wanted | known, **kwargs) if one is None else one
        if known or any(isinstance(node, GroupNode) for node in low.values()):
            sizes = {name: each.groups_per_task for name, each in dsk.layers.items() if isinstance(each, Tasks)}
            low = private.fuse_linear(move_in_chains(low, wanted, known, sizes), wanted | known)
        # Each alias that fusion leaves would run as a task.
        low = private.resolve_aliases(low, wanted | known, users_of(low))
        low = finish_together(move_in_steps(low, wanted | known), wanted, known)
        return workers.as_scheduled({key: group_task.read_as_computed(node) for key, node in low.items()}, wanted)

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        # By value: with a graph that has nothing of this package in it, it may reach a scheduler that lacks it.
        return cloudpickle.loads, (_Call(zlib.decompress, _compressed()),)


def flat_keys(keys: Any) -> Iterator[Key]:
    """Of nested lists of keys."""
    found: Iterator[Key] = da.core.flatten([keys], (list, set))  # type: ignore[attr-defined, no-untyped-call]
    return found


def _as_kept(graph: HighLevelGraph, wanted: set[Key]) -> HighLevelGraph:
    """The graph, in which layers whose results are all kept, by the caller or by a task that joins them, write the
    tasks for that case."""
    layers = {}
    for name, layer in graph.layers.items():
        if isinstance(layer, LazyTasks):
            users, mine = graph.dependents[name], [key for key in wanted if isinstance(key, tuple) and key[0] == name]
            if users <= wanted if users else len(mine) == layer.factory.results:
                layers[name] = LazyTasks(layer.factory.where_kept())
    return HighLevelGraph({**graph.layers, **layers}, graph.dependencies) if layers else graph


def _of_one_layer(graph: Any, wanted: set[Key]) -> Graph | None:
    """What dask's optimisation gives of a graph of chunks in memory and one layer of our tasks; None of others. dask
    would look at each task five times, which for a scan of many chunks takes as long as some of its tasks."""
    layers = [layer for layer in graph.layers.values() if not workers.are_of_futures(layer)]
    if len(layers) != 1 or not isinstance(layers[0], Tasks) or not wanted <= layers[0].mapping.keys():
        return None
    tasks: Mapping[Key, GraphNode] = layers[0].mapping
    found: Graph = {}
    ahead = list(wanted)
    while ahead:
        key = ahead.pop()
        if key in tasks and key not in found:
            found[key] = tasks[key]
            ahead.extend(tasks[key].dependencies)
    return private.fuse_linear(found, wanted)


class _Call:
    """What a function gives of some arguments, called where it is unpickled."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call[0], self.call[1:]


@cache
def _compressed() -> bytes:
    """What cloudpickle makes of :func:`_resolve`, compressed: of a graph that has ``__main__`` among its bytes
    distributed pickles all once more, by cloudpickle, which takes three times as long."""
    import cloudpickle

    return zlib.compress(cloudpickle.dumps(_Call(_resolve)))


def _resolve() -> Any:
    try:
        from gpureduce_dask.graph.fusion import OPTIMIZE
    except ImportError:
        from dask.array import optimize

        return optimize
    return OPTIMIZE


_resolve.__module__ = "__main__"  # what cloudpickle takes as: pickle the code, not the name
OPTIMIZE = Optimize()


def install() -> None:
    """Make arrays optimise by :class:`Optimize` in this process, with the first graph that has something for it. dask's
    configuration, under its key ``array_optimize``, still goes before."""
    private.optimize_arrays(OPTIMIZE)


def move_in_chains(
    graph: Graph, wanted: set[Key], known: Iterable[Key] = (), groups_per_task: Mapping[Any, int] = MappingProxyType({})
) -> Graph:
    """The graph with each group's private chains moved into the group's task, and as many groups of one name into one
    task as ``groups_per_task`` says. Of what the scheduler has already, the ``known`` keys, those at which chains meet
    or part stay where dask would find them. What one task alone needs, and needs alone, is made again with it, as
    dask's fusion makes it."""
    users = users_of(graph)
    there = {key: users[key] for key in known if key in users}
    ends = (key for key, mine in there.items() if len(mine) != 1 or any(len(graph[u].dependencies) > 1 for u in mine))
    wanted = wanted.union(ends)
    fused = dict(graph)
    apart: set[Key] = set()  # groups whose chunks stay tasks of their own
    flat = {node.key: _flat(node, graph, wanted) for node in graph.values() if isinstance(node, GroupNode)}
    bundles = []
    for groups in _groups_of_same_chunks(graph, [group for group, _ in flat.values()], users):
        bundle = _Bundle(groups, graph, users, wanted)
        replaced = {key for group in groups for key in flat[group.key][1]}
        # What is not made here had better be combined.
        if replaced and not bundle.inside.keys() >= set(bundle.members()):
            groups = [cast(GroupNode, graph[group.key]) for group in groups]
            bundle, replaced = _Bundle(groups, graph, users, wanted), set()
        if not bundle.inside:
            apart.update(group.key for group in groups if _is_only_combined(group, users, wanted))
        for key in bundle.inside.keys() | replaced:
            del fused[key]
        bundles.append(bundle)
    for several in _batches(bundles, groups_per_task):
        fused.update((node.key, node) for node in _bundle_tasks(several))
    for user in {user for key in apart for user in users[key]}:
        _widen(user, fused, apart)
    return fused


def _widen(user: Key, graph: Graph, apart: set[Key]) -> None:
    """Fewer groups for one task to combine, where they only combine too: as many partials to each as that task takes,
    or the largest of them. Smaller ones serve those that make their chunks."""
    node = graph.get(user)
    if not (isinstance(node, Task) and _function(node) in (combine, finalise)):
        return
    if not all(isinstance(each, TaskRef) and each.key in apart for each in node.args[0].args):
        return
    groups = [cast(Task, graph[ref.key]) for ref in node.args[0].args]
    members = [ref for group in groups for ref in group.args[0].args]
    found = even_stretches(len(members), max(len(each.args[0].args) for each in (node, *groups)))
    if len(found) == len(groups):
        return
    for group in groups:
        del graph[group.key]
    kept = []
    for group, each in zip(groups, found, strict=False):
        mine = [members[i] for i in each.members]
        # By a key of its own: a scheduler that knows the group's has another partial under it.
        key = f"{_shown(groups[0].key)}-{tokenize([str(ref.key) for ref in mine])}"
        graph[key] = Task(key, group.func, List(*mine))
        kept.append(TaskRef(key))
    graph[user] = Task(user, node.func, List(*kept), *node.args[1:])


def _is_only_combined(group: GroupNode, users: Mapping[Key, set[Key]], wanted: set[Key]) -> bool:
    """True for a group of partials that gives one for one other task, and folds no axes that wait."""
    is_partial = _function(group) is combine and not group.func.keywords.get("then")  # type: ignore[attr-defined]
    return is_partial and group.key not in wanted and len(users[group.key]) == 1


def _function(node: Task) -> Any:
    return getattr(node.func, "func", None)


def _flat(group: GroupNode, graph: Graph, wanted: set[Key]) -> tuple[GroupNode, list[Key]]:
    """A group without the tasks that combine some of its members first, which it does itself as it makes them, and the
    keys of these."""
    members: list[Key] = []
    replaced: list[Key] = []
    ahead = group.members[::-1]
    while ahead:
        key = ahead.pop()
        node = graph.get(key)
        if key not in wanted and type(node) is Task and _function(node) is combine:
            replaced.append(key)
            ahead += [ref.key for ref in reversed(node.args[0].args)]
        else:
            members.append(key)
    return (type(group)(group.key, group.func, List(*map(TaskRef, members))), replaced) if replaced else (group, [])


def _groups_of_same_chunks(
    graph: Graph, groups: list[GroupNode], users: Mapping[Key, set[Key]]
) -> Iterable[list[GroupNode]]:
    """Groups that fold the same chunks, by different operators or of different functions of their elements. A chunk of
    their own is what one member of each needs. What several members of one need is no chunk of theirs but what these
    are read from, such as the array of a file, which all groups of all chunks may share."""
    made = _made_by({m for g in groups for m in g.members}, graph, users)
    needs = [[(_name(m), _chunks_of(m, graph, made)) for m in g.members] for g in groups]
    counts = Counter((name, key) for each in needs for name, keys in each for key in keys)
    found: dict[Any, list[GroupNode]] = {}
    for group, mine in zip(groups, needs, strict=True):
        has_own = all(any(counts[name, key] == 1 for key in keys) for name, keys in mine)
        chunks = tuple(keys for _, keys in mine) if has_own else group.key
        found.setdefault(chunks, []).append(group)
    # In one order, whatever the graph's is: a scheduler may know the task of them all, and its list of results.
    return [sorted(each, key=lambda group: str(group.key)) for each in found.values()]


def _made_by(members: set[Key], graph: Graph, users: Mapping[Key, set[Key]]) -> set[Key]:
    """The tasks that members alone need and that make something of a chunk, such as a mask of what is missing that a
    sum and a count share. What reads a chunk makes it of what others need too."""
    found: set[Key] = set()
    ahead = members & graph.keys()
    while ahead:
        inner = members | found
        below = {d for key in ahead for d in graph[key].dependencies} - inner
        ahead = {
            key
            for key in below
            if isinstance(node := graph.get(key), Task)
            and not isinstance(node, GroupNode)
            and users[key] <= inner
            and any(users[d] <= inner | {key} for d in node.dependencies)
        }
        found |= ahead
    return found


def _chunks_of(member: Key, graph: Graph, made: set[Key]) -> frozenset[Key]:
    """What a member is made of, behind what was made of a chunk."""
    found: set[Key] = set()
    ahead = [member] if member in graph else []
    while ahead:
        new = graph[ahead.pop()].dependencies - found
        found |= new
        ahead.extend(new & made)
    return frozenset(found - made)


def _name(key: Key) -> Any:
    return key[0] if type(key) is tuple else key


def _shown(key: Key) -> str:
    """What dask shows for a key of this package: its name without the token."""
    return str(_name(key)).rpartition("-")[0]


@dataclass
class _Bundle:
    """Groups that become one task, and the tasks that move into it."""

    groups: list[GroupNode]
    graph: Graph
    users: Mapping[Key, set[Key]]
    wanted: set[Key]
    barred: set[Key] = field(default_factory=set)  # members that stay tasks of their own

    @cached_property
    def inside(self) -> Graph:
        """The tasks that move in, less the chains that would bring too much from elsewhere."""
        wanted = [key for group in self.groups for key in group.dependencies]
        while True:
            inside = {key: self.graph[key] for key in needed_alone(wanted, self.graph, self.users, self._may_move)}
            chains = {m: {node.key: node for node in sources_first(m, inside)} for m in self.members() if m in inside}
            needs = {m: needs_of(chain) for m, chain in chains.items()}
            each = zip(*(group.members for group in self.groups), strict=True)
            counts = Counter(key for members in each for key in set().union(*(needs.get(m, ()) for m in members)))
            # In the graph itself, or on the worker that the group is sent to.
            local = {k for k in counts if (isinstance(self.graph[k], DataNode) if k in self.graph else self.is_placed)}
            few = Counter({key: n for key, n in counts.items() if key not in local and self._may_wait_for(key, n)})
            waits = {key for key, n in few.items() if n == 1}
            most = [key for key, _ in few.most_common(SHARED + len(chains) // CHUNKS_A_SHARED)]
            if workers.are_processes():
                alone = [key for key in most if key in waits]
                most = [key for key in most if key not in waits][:SHARED_BY_PROCESSES] + alone[:ALONE_BY_PROCESSES]
            fit = local.union(most)
            unfit = {m for m, chain in chains.items() if not (needs[m] <= fit and _makes_chunk(chain, waits))}
            if not unfit:
                return inside
            self.barred |= unfit

    @property
    def is_placed(self) -> bool:
        return all(isinstance(group, PlacedGroupNode) for group in self.groups)

    def members(self) -> list[Key]:
        return [m for group in self.groups for m in group.members]

    def _may_move(self, key: Key) -> bool:
        node = self.graph[key]
        return not (isinstance(node, DataNode) or node.block_fusion or key in self.wanted or key in self.barred)

    def _may_wait_for(self, key: Key, users: int) -> bool:
        """False for a chunk of one's own on some worker, and for what ties the tasks after it to a worker, as a
        peer-to-peer rechunk does."""
        node = self.graph.get(key)
        return users > 1 if node is None else isinstance(node, GroupNode) or not node.block_fusion

    def steps(self, closes: list[Callable[..., Any]]) -> Iterator[Step]:
        """Members in order, those of the same chunk together; each with the tasks that make it, sources first. What
        makes the task's results goes to the end of ``closes``, where a member's number says of which it is a part."""
        done: set[Key] = set()
        each = []
        for group in self.groups:
            numbers = []
            for close, size in group.closes:
                numbers += [len(closes)] * size
                closes.append(close)
            each.append(zip(group.members, numbers, strict=True))
        for pairs in zip(*each, strict=True):
            for member, number in pairs:
                yield number, member, tuple(self._chain(member, done))

    def _chain(self, member: Key, done: set[Key]) -> Iterator[GraphNode]:
        for node in sources_first(member, self.inside):
            for key in (node.key, *self._cuts(node.key)):
                if key not in done:
                    done.add(key)
                    yield self.graph[key]

    def _cuts(self, key: Key) -> list[Key]:
        """The slices of a chunk of which nothing else is needed, by any of the members: dask copies small ones, and the
        chunk need not stay for the last of them."""
        cuts = sorted(self.users[key], key=str)
        nodes = [self.inside.get(user) for user in cuts]
        is_cut = (isinstance(n, Task) and deferred.function_of(n) is deferred.SLICE for n in nodes)
        return cuts if all(is_cut) and all(n and len(n.dependencies) == 1 for n in nodes) else []


def _makes_chunk(chain: Graph, waits: set[Key]) -> bool:
    """False for a chain that only works on a chunk that another task makes: as a task of its own it sets that free as
    soon as it is made, and does not hold it until the last chunk of the group is made."""
    return any(node.dependencies.isdisjoint(chain.keys() | waits) for node in chain.values())


def _batches(bundles: Iterable[_Bundle], groups_per_task: Mapping[Any, int]) -> Iterator[list[_Bundle]]:
    """Bundles that one task makes one after another: those of one name that make their chunks anywhere, in order."""
    found: dict[Any, list[_Bundle]] = {}
    for bundle in bundles:
        names = tuple(_name(group.key) for group in bundle.groups)
        if bundle.inside and not bundle.is_placed and min(groups_per_task.get(name, 1) for name in names) > 1:
            found.setdefault(names, []).append(bundle)
        else:
            yield [bundle]
    for names, each in found.items():
        each.sort(key=lambda bundle: bundle.groups[0].key)
        for part in even_stretches(len(each), min(groups_per_task[name] for name in names)):
            yield [each[i] for i in part.members]


def _bundle_tasks(bundles: list[_Bundle]) -> Iterator[GraphNode]:
    """The tasks that stand for the groups of bundles that are made one after another."""
    groups = [group for bundle in bundles for group in bundle.groups]
    if not bundles[0].inside:
        yield from (Task(group.key, group.func, *group.args) for group in groups)
        return
    closes: list[Callable[..., Any]] = []
    steps: list[Step] = []
    for bundle in bundles:
        steps += bundle.steps(closes)
    made = {node.key for _, _, nodes in steps for node in nodes}
    needs = {key for _, _, nodes in steps for node in nodes for key in node.dependencies}
    takes = tuple(sorted((needs | {m for _, m, _ in steps}) - made, key=str))
    key = groups[0].key
    if len(groups) > 1:
        names = sorted({_shown(group.key).removeprefix("gr-").removesuffix("-group") for group in groups})
        words = "-".join(names if len(names) <= NAMES_SHOWN else ["several"])
        key = f"gr-{words}-group-{tokenize(sorted(str(group.key) for group in groups))}"
        first = 0
        for group in groups:
            end = first + len(group.closes)
            which: Any = slice(first, end) if group.is_of_slices else first
            yield Task(group.key, partial(pick, number=which), TaskRef(key))
            first = end
    yield Task(key, group_task.run, tuple(closes), tuple(steps), takes, *(TaskRef(need) for need in takes))


# ---- elementwise steps of scans
# A scan whose lines are not scanned in turn reads each chunk twice: for its total, and for its results from the carry
# before it. A chunk that elementwise steps make of chunks in memory would lie there in between, and with it all others
# of its line, and take a task to make. Moved into both tasks, the steps are computed as these read, and nothing is
# kept. On the host a second evaluation pays for steps that are no more than a pass over memory; on a GPU for all.

READERS = (scan_tasks.totals, scan_tasks.carries, scan_tasks.scan_first, scan_tasks.scan_chunk, scan_tasks.scan_line)
# Not ``clip``, ``maximum`` and ``where``, which take NumPy 4 to 30 times as long as a sum: a scan of chunks that a
# difference and a clip make took 404 ms with them, 307 without (Epyc, one thread, float32 (3652, 90, 180), 2026-11).
CHEAP = {
    getattr(operator, name) for name in "add sub mul truediv neg pos invert and_ or_ xor lt le gt ge eq ne".split()
}
CHEAP |= {abs, deferred.CAST, np.abs, np.add, np.divide, np.isfinite, np.isnan, np.multiply, np.negative, np.square}
CHEAP |= {np.subtract}


def move_in_steps(graph: Graph, wanted: set[Key]) -> Graph:
    """The graph without the elementwise steps that only scans need, which their tasks do instead."""
    readers = {key: node for key, node in graph.items() if isinstance(node, Task) and node.func in READERS}
    needs = {key for node in readers.values() for key in node.dependencies if key in graph}
    steps = {key for key in needs - wanted if _are_steps(graph[key])}
    if not steps:
        return graph
    users = users_of(graph)
    scans = {key: [_scan_of(readers.get(user), graph) for user in users[key]] for key in steps}
    movable = {key for key in steps if users[key] <= readers.keys() and _is_worth(graph[key], scans[key])}
    fused = {key: node for key, node in graph.items() if key not in movable}
    for key, node in readers.items():
        chains = [graph[need] for need in node.dependencies if need in movable]
        if chains:
            fused[key] = Task.fuse(*chains, node, key=key)
    return fused


def are_computed(arrays: Sequence[Any], scan: Scan) -> bool:
    """True for arrays whose chunks elementwise steps make of chunks in memory, by the first of each: steps that
    :func:`move_in_steps` moves where nothing else needs what they make."""
    for x in arrays:
        key = (x.name, *(0 for _ in x.numblocks))
        graph = da.optimize(x.dask, [key])
        node = graph.get(key)
        if not _is_worth(node, [scan, scan]) or not node.dependencies.isdisjoint(graph):
            return False
    return True


def _scan_of(node: Any, graph: Graph) -> Scan | None:
    """The scan that a task belongs to: its last argument, or that of the task which found what stands before it."""
    if not isinstance(node, Task):
        return None
    if node.func is scan_tasks.scan_chunk:
        return _scan_of(graph.get(node.args[0].key), graph)
    scan = node.kwargs.get("scan", node.args[-1])
    return scan if isinstance(scan, Scan) else None


def _is_worth(node: GraphNode | None, scans: list[Scan | None]) -> bool:
    """True for elementwise steps that scans may compute as they read, and that cost little to compute for each."""
    if not isinstance(node, Task) or not all(s is not None and s.fuse and not s.flat for s in scans):
        return False
    may_repeat = len(scans) == 1 or all(s is not None and s.device for s in scans) or CHEAP.issuperset(_functions(node))
    return may_repeat and _are_steps(node)


def _are_steps(node: GraphNode) -> bool:
    return isinstance(node, Task) and all(f in deferred.PLAIN for f in _functions(node))


def _functions(node: Task) -> Iterator[Any]:
    """What a task calls, and the tasks within it; of what is no call its type, which is in no table."""
    if not node.has_subgraph():
        yield deferred.function_of(node)
        return
    for each in node.args[0].values():
        if isinstance(each, Task):
            yield from _functions(each)
        elif not isinstance(each, Alias | DataNode):
            yield type(each)


# ---- output blocks
# Where an array is computed whole, dask adds a task that joins its blocks. A task costs more than to finish a small
# block. Blocks that are finished out of the same few partials, which go to all of them anyway, and that nothing but the
# joining task needs, are finished in that task.


def finish_together(graph: Mapping[Key, GraphNode], wanted: set[Key], known: set[Key]) -> Mapping[Key, GraphNode]:
    """The graph with the tasks that finish small blocks moved into the one that joins them."""
    joining = [key for key in wanted & graph.keys() if any(_finishes(graph.get(k)) for k in graph[key].dependencies)]
    if not joining:
        return graph
    users, fused, apart = users_of(graph), dict(graph), wanted | known
    for key in joining:
        needs = graph[key].dependencies
        moved = needed_alone(needs, graph, users, lambda k: k not in apart and _finishes(graph[k]))
        # Without what they await to be sent together with the others.
        finished = {k: Task(k, cast(Task, graph[k]).func, cast(Task, graph[k]).args[0]) for k in moved}
        inside = finished.keys()
        partials = needs_of(finished)
        if len(partials) >= len(inside):
            continue
        names = tuple(sorted((partials | graph[key].dependencies) - inside, key=str))
        inner = {**finished, key: graph[key]}
        fused[key] = Task(key, group_task.execute, inner, key, names, *map(TaskRef, names))
        for each in inside:
            del fused[each]
        for need in needs_of({each: graph[each] for each in inside}) - partials:  # what they awaited
            if users[need] <= inside:
                fused.pop(need, None)
    return fused


def _finishes(node: GraphNode | None) -> bool:
    return type(node) is Task and _function(node) in (combine, finalise, pick)
