"""dask's hook for optimising arrays: groups whose chunks have yet to be made take in the tasks that make them.

One task then makes, reduces and frees a group's chunks one after another. Only when a graph is about to run is it known
what else needs a chunk. So the graph is built with a task a chunk, right as it is, and the hook moves into each group
the tasks that nothing else needs. A chunk that something else needs too stays a task of its own; where that is another
reduction of the same chunks, one task makes them for both.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Protocol, cast

import dask
from dask.base import clone_key, tokenize
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer

from ..distributed import private, workers
from ..distributed.private import (
    DataNode,
    GraphNode,
    List,
    Task,
    TaskRef,
)
from ..planner import even_stretches
from . import deferred, group_task
from . import graph_arrays as da
from .group_task import Key, Step
from .reduce_tasks import combine, finalise, pick
from .task_fusion import finish_together, move_in_steps, users_of


class Tasks(MaterializedLayer):
    """Tasks by key. dask's own layer, which it is otherwise, would copy them with references to the old keys.

    ``groups_per_task`` is how many of the groups that give its results one task makes, one after another.
    """

    groups_per_task = 1

    def __init__(self, mapping: Mapping[Any, GraphNode], groups_per_task: int = 1) -> None:
        super().__init__(mapping)
        self.groups_per_task = groups_per_task

    def clone(self, keys: set[Any], seed: Hashable, bind_to: Any = None) -> tuple[Tasks, bool]:
        """The layer with these keys replaced, and whether some task waits for ``bind_to`` now: those that refer to no
        other replaced key do."""
        made: dict[Any, GraphNode] = {}
        is_bound = False
        for key, node in self.items():
            if key not in keys:
                made[key] = node
                continue
            subs = {need: clone_key(need, seed) for need in node.dependencies & keys}
            name = clone_key(key, seed)
            copy = node.substitute(subs, key=name)
            if bind_to is not None and not subs:
                copy = Task(name, _wait_for, copy, TaskRef(bind_to))
                is_bound = True
            made[name] = copy
        return Tasks(made, self.groups_per_task), is_bound


def _wait_for(result: Any, awaited: Any) -> Any:
    """A result that waited for another."""
    return result


class TaskWriter:
    """Tasks as they come. Keys of the result's blocks begin with ``name``; those of others say their step, are
    numbered, and say how many chunks or partials a task takes.

    Steps of reductions are "chunk", one to its partial, "group", several chunks to one, "combine", partials to one,
    and "blocks", those of several slices to their results.
    Those of scans are "total", of chunks, "carry", what stands before each chunk, "line", several chunks of a line
    scanned in turn, "behind", what stands behind them, "cut" and "gather", the rows of several chunks, and "rows", some
    of these scanned.
    """

    def __init__(self, prefix: str, token: str) -> None:
        self.prefix, self.token, self.name = prefix, token, f"{prefix}-{token}"
        self.tasks: dict[Any, GraphNode] = {}
        self._names: dict[str, str] = {}  # one text each: it travels once
        self._counts: dict[tuple[int, str], str] = {}

    def step_name(self, step: str) -> str:
        """What the keys of a step's tasks begin with."""
        if step not in self._names:
            self._names[step] = f"{self.prefix}-{step}-{self.token}"
        return self._names[step]

    def add(
        self,
        step: str,
        run: Callable[..., Any],
        *arguments: Any,
        kind: type[Task] = Task,
        count: int | None = None,
        of: str = "chunk",
    ) -> TaskRef:
        """A task of this step, which takes so many chunks, or whatever else."""
        key: Any = (self.step_name(step), len(self.tasks))
        if count is not None:
            key += (self._counts.setdefault((count, of), f"{count} {of}{'s' * (count != 1)}"),)
        self.tasks[key] = kind(key, run, *arguments)
        return TaskRef(key)


class TaskFactory(Protocol):
    """What the tasks of a layer follow from."""

    @property
    def results(self) -> int:
        """How many chunks they give."""

    def where_kept(self) -> TaskFactory:
        """The same for where all of these chunks are kept, and none is read and let go."""

    def tasks(self) -> dict[Any, GraphNode]:
        """All of them, by key."""


class LazyTasks(Tasks):
    """Tasks that are written down when somebody looks at them, and that travel as what they follow from."""

    def __init__(self, factory: TaskFactory) -> None:
        Layer.__init__(self)
        self.factory = factory

    @cached_property
    def mapping(self) -> Mapping[Any, GraphNode]:  # type: ignore[override]
        return self.factory.tasks()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "mapping"}


Graph = dict[Key, GraphNode]

# What the chains of a group may share with other tasks, and wait for: so many results, such as the mean that all
# chunks are compared with, and one more for so many chunks. Did each chunk bring one, all would lie in memory at once.
SHARED = 4
CHUNKS_A_SHARED = 8
# The same of tasks for dask's own processes, whose parent holds what a task takes once more, pickled: so many results
# that several chunks share, and so many that one chunk alone takes.
SHARED_BY_PROCESSES, ALONE_BY_PROCESSES = 3, 1
NAMES_SHOWN = 3  # of the reductions that one task makes the chunks for


class GroupNode(Task):
    """A task that folds its inputs in order, and may make them too: dask fuses it with nothing."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        return True

    @property
    def members(self) -> list[Key]:
        return [ref.key for ref in self.args[0].args]

    @property
    def closes(self) -> Sequence[Callable[..., Any]]:
        """What makes a result of members that are folded together, for each such set of them."""
        return (self.func,)

    @property
    def folds(self) -> list[int]:
        """Which of these sets each member belongs to."""
        return [0] * len(self.args[0].args)


class PlacedGroupNode(GroupNode):
    """A group made of chunks that one worker can make of what it holds."""

    __slots__ = ()


class PlacedGroupsNode(PlacedGroupNode):
    """Groups of several slices that one task makes of what a worker holds: it gives a list of their partials."""

    __slots__ = ()

    @property
    def closes(self) -> Sequence[Callable[..., Any]]:
        options = self.func.keywords  # type: ignore[attr-defined]
        return [partial(combine, bound=options["bound"])] * len(options["sizes"])

    @property
    def folds(self) -> list[int]:
        sizes = self.func.keywords["sizes"]  # type: ignore[attr-defined]
        return [number for number, size in enumerate(sizes) for _ in range(size)]


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
            groups_per_task = {
                name: layer.groups_per_task for name, layer in dsk.layers.items() if isinstance(layer, Tasks)
            }
            low = private.fuse_linear(move_in_chains(low, wanted, known, groups_per_task), wanted | known)
        # Each alias that fusion leaves would run as a task.
        low = private.resolve_aliases(low, wanted | known, users_of(low))
        low = finish_together(move_in_steps(low, wanted | known), wanted, known)
        return {key: group_task.read_as_computed(node) for key, node in low.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        # By value: with a graph that has nothing of this package in it, it may reach a scheduler that lacks it.
        return cloudpickle.loads, (_Compressed(),)


def flat_keys(keys: Any) -> Iterator[Key]:
    """Of nested lists of keys."""
    for each in keys if isinstance(keys, list | set) else [keys]:
        if isinstance(each, list | set):
            yield from flat_keys(each)
        else:
            yield each


def _as_kept(graph: HighLevelGraph, wanted: set[Key]) -> HighLevelGraph:
    """The graph, in which layers whose results are all kept, by the caller or by a task that joins them, write the
    tasks for that case."""
    layers = {}
    for name, layer in graph.layers.items():
        users = graph.dependents[name]
        if isinstance(layer, LazyTasks) and (users <= wanted if users else _are_all_wanted(name, layer, wanted)):
            layers[name] = LazyTasks(layer.factory.where_kept())
    return HighLevelGraph({**graph.layers, **layers}, graph.dependencies) if layers else graph


def _are_all_wanted(name: str, layer: LazyTasks, wanted: set[Key]) -> bool:
    mine = [key for key in wanted if isinstance(key, tuple) and key[0] == name]
    return len(mine) == layer.factory.results


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
    fused: Graph = private.fuse_linear(found, wanted)
    return fused


class _Resolved:
    def __reduce__(self) -> tuple[Any, ...]:
        return _resolve, ()


class _Compressed:
    """What cloudpickle makes of :class:`_Resolved`, as bytes that travel compressed: of a graph that has ``__main__``
    among its bytes distributed pickles all once more, by cloudpickle, which takes three times as long."""

    def __reduce__(self) -> tuple[Any, ...]:
        return zlib.decompress, (_compressed(),)


@cache
def _compressed() -> bytes:
    import cloudpickle

    return zlib.compress(cloudpickle.dumps(_Resolved()))


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
    """Make arrays optimise by :class:`Optimize` in this process, with the first graph that has something for it.

    dask's configuration, under its key ``array_optimize``, still goes before.
    """
    private.optimize_arrays(OPTIMIZE)


def move_in_chains(
    graph: Graph, wanted: set[Key], known: Iterable[Key] = (), groups_per_task: Mapping[Any, int] = MappingProxyType({})
) -> Graph:
    """The graph with each group's private chains moved into the group's task, and as many groups of one name into one
    task as ``groups_per_task`` says.

    Of what the scheduler has already, the ``known`` keys, those at which chains meet or part stay where dask would find
    them. What one task alone needs, and needs alone, is made again with it, as dask's fusion makes it.
    """
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
        if replaced and not bundle.inside.issuperset(bundle.members()):  # what is not made here had better be combined
            groups = [cast(GroupNode, graph[group.key]) for group in groups]
            bundle, replaced = _Bundle(groups, graph, users, wanted), set()
        if not bundle.inside:
            apart.update(group.key for group in groups if _is_only_combined(group, users, wanted))
        for key in bundle.inside | replaced:
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
    """Groups that fold the same chunks, by different operators or of different functions of their elements.

    A chunk of their own is what one member of each needs. What several members of one need is no chunk of theirs but
    what these are read from, such as the array of a file, which all groups of all chunks may share.
    """
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
    def inside(self) -> set[Key]:
        """The tasks that move in, less the chains that would bring too much from elsewhere."""
        while True:
            inside = self._private()
            chains = {m: self._chain_of(m, inside) for m in self.members() if m in inside}
            chunks = [
                {key for m in members if m in chains for key in chains[m][1]}
                for members in zip(*(group.members for group in self.groups), strict=True)
            ]
            counts = Counter(key for needs in chunks for key in needs)
            local = {key for key in counts if self._is_in_memory(key)}
            few = Counter({key: n for key, n in counts.items() if key not in local and self._may_wait_for(key, n)})
            waits = {key for key, n in few.items() if n == 1}
            most = [key for key, _ in few.most_common(SHARED + len(chains) // CHUNKS_A_SHARED)]
            if workers.are_processes():
                alone = [key for key in most if key in waits]
                most = [key for key in most if key not in waits][:SHARED_BY_PROCESSES] + alone[:ALONE_BY_PROCESSES]
            fit = local.union(most)
            unfit = {
                m for m, (steps, needs) in chains.items() if not needs <= fit or not self._makes_chunk(steps, waits)
            }
            if not unfit:
                return inside
            self.barred |= unfit

    @property
    def is_placed(self) -> bool:
        return all(isinstance(group, PlacedGroupNode) for group in self.groups)

    def members(self) -> list[Key]:
        return [m for group in self.groups for m in group.members]

    def _private(self) -> set[Key]:
        """Tasks that only this bundle needs, at the end of any path."""
        inside: set[Key] = set()
        seen: Counter[Key] = Counter()
        ahead = [key for group in self.groups for key in group.dependencies]
        while ahead:
            key = ahead.pop()
            seen[key] += 1
            node = self.graph.get(key)
            if node is None or isinstance(node, DataNode) or node.block_fusion:
                continue
            if key in self.wanted or key in self.barred or seen[key] < len(self.users[key]):
                continue
            inside.add(key)
            ahead.extend(node.dependencies)
        return inside

    def _chain_of(self, member: Key, inside: set[Key]) -> tuple[set[Key], set[Key]]:
        """A member's chain, and what it needs from elsewhere."""
        steps, ahead = {member}, [member]
        needs: set[Key] = set()
        while ahead:
            for key in self.graph[ahead.pop()].dependencies - steps - needs:
                if key in inside:
                    steps.add(key)
                    ahead.append(key)
                else:
                    needs.add(key)
        return steps, needs

    def _makes_chunk(self, steps: set[Key], waits: set[Key]) -> bool:
        """False for a chain that only works on a chunk that another task makes: as a task of its own it sets that free
        as soon as it is made, and does not hold it until the last chunk of the group is made."""
        return any(not self.graph[key].dependencies & (steps | waits) for key in steps)

    def _is_in_memory(self, key: Key) -> bool:
        """True for what lies in the graph itself, or on the worker that the group is sent to."""
        return isinstance(self.graph[key], DataNode) if key in self.graph else self.is_placed

    def _may_wait_for(self, key: Key, users: int) -> bool:
        """False for a chunk of one's own on some worker, and for what ties the tasks after it to a worker, as a
        peer-to-peer rechunk does."""
        node = self.graph.get(key)
        return users > 1 if node is None else isinstance(node, GroupNode) or not node.block_fusion

    @property
    def closes(self) -> list[Callable[..., Any]]:
        """What makes each of the task's results."""
        return [close for group in self.groups for close in group.closes]

    def steps(self, before: int) -> Iterator[Step]:
        """Members in order, those of the same chunk together; each with the tasks that make it, sources first.
        ``before`` is how many results go before the first."""
        done: set[Key] = set()
        firsts = accumulate((len(group.closes) for group in self.groups[:-1]), initial=before)
        numbers = [[first + i for i in g.folds] for g, first in zip(self.groups, firsts, strict=True)]
        each = (zip(g.members, places, strict=True) for g, places in zip(self.groups, numbers, strict=True))
        for pairs in zip(*each, strict=True):
            for member, number in pairs:
                yield number, member, tuple(self._chain(member, done))

    def _chain(self, member: Key, done: set[Key]) -> Iterator[GraphNode]:
        ahead = [(member, False)] if member in self.inside else []
        while ahead:
            key, is_ready = ahead.pop()
            if key in done:
                continue
            if is_ready:
                for each in (key, *self._cuts(key)):
                    done.add(each)
                    yield self.graph[each]
                continue
            ahead.append((key, True))
            inner = sorted(self.graph[key].dependencies & self.inside - done, key=str, reverse=True)
            ahead.extend((dep, False) for dep in inner)

    def _cuts(self, key: Key) -> list[Key]:
        """The slices of a chunk of which nothing else is needed, by any of the members: dask copies small ones, and the
        chunk need not stay for the last of them."""
        cuts = sorted(self.users[key], key=str)
        return cuts if all(u in self.inside and _is_cut(self.graph[u]) for u in cuts) else []


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
        steps += bundle.steps(len(closes))
        closes += bundle.closes
    made = {node.key for _, _, nodes in steps for node in nodes}
    needs = {key for _, _, nodes in steps for node in nodes for key in node.dependencies}
    names = tuple(sorted((needs | {m for _, m, _ in steps}) - made, key=str))
    key = groups[0].key
    if len(groups) > 1:
        key = f"{_shown_together(groups)}-{tokenize(sorted(str(group.key) for group in groups))}"
        first = 0
        for group in groups:
            many, count = isinstance(group, PlacedGroupsNode), len(group.closes)
            which: Any = slice(first, first + count) if many else first
            yield Task(group.key, partial(pick, number=which), TaskRef(key))
            first += count
    yield Task(key, group_task.run, tuple(closes), tuple(steps), names, *(TaskRef(name) for name in names))


def _shown_together(groups: Sequence[GroupNode]) -> str:
    """What the key of a task of several reductions begins with: their names, or how many they are."""
    names = sorted({_shown(group.key).removeprefix("gr-").removesuffix("-group") for group in groups})
    return "-".join(["gr", *(names if len(names) <= NAMES_SHOWN else ["several"]), "group"])


def _is_cut(node: GraphNode) -> bool:
    return type(node) is Task and deferred.function_of(node) is deferred.SLICE and len(node.dependencies) == 1
