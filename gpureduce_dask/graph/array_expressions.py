"""Arrays that are expressions: those of ``dask.array`` with ``array.query-planning`` on, and of the package
``dask-array``.

A public function that is given such arrays runs on stand-ins: graph-based arrays of the same names, chunks and metas.
What it gives becomes expressions of the caller's kind, whose operands are those arrays'. An optimiser may replace the
operands by others of other names; the function is then run again on stand-ins of the new ones. So the same code
writes the tasks, and what lies below a result is optimised as below any other expression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import dask
import dask.array
import numpy as np
from dask.array.core import Array as GraphArray
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer

from ..distributed import private, workers
from ..distributed.private import Alias, DataNode, GraphNode
from ..errors import ArgumentError, message
from ..public import call_by
from . import fusion
from .graph_arrays import IS_PLANNED

Names = tuple[str, ...]

SETTINGS = ("split_every", "gpureduce")  # keys of the configuration that trees follow
REMEMBERED = 4  # graphs of one call: of its operands as given, and as they are at each step of an optimiser

_is_inside: ContextVar[bool] = ContextVar("gpureduce_on_stand_ins", default=False)


# The packages whose arrays are expressions.
DASK, DASK_ARRAY = "dask.array", "dask_array"


def array_class(package: str) -> Any:
    """The class of a package's arrays."""
    return sys.modules[package].Array


def packages() -> list[str]:
    """Those whose arrays the program may have."""
    found = [DASK_ARRAY] if hasattr(sys.modules.get(DASK_ARRAY), "Array") else []
    return [*found, DASK] if IS_PLANNED else found


def package_of(x: Any) -> str | None:
    """The package of an array that is an expression, or None."""
    return next((each for each in packages() if isinstance(x, array_class(each))), None)


# ---- calls


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of graph-based arrays called with arrays of any kind; its results are of the kind of its arguments.
    With query planning on, results are expressions whatever is given, as they are of dask's own functions."""
    known = [] if _is_inside.get() else packages()
    if not known:
        return function(*args, **kwargs)
    out = kwargs.get("out")
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if (kind := package_of(out)) is not None:
        return _put(function.__name__, out, call(function, args, {**kwargs, "out": None}), kind)
    given: dict[str, Any] = {}

    def slot(x: Any) -> Slot:
        given.setdefault(x.name, x)
        return Slot([*given].index(x.name))

    slots = substitute((args, kwargs), tuple(map(array_class, known)), slot)
    kinds = list(dict.fromkeys(filter(None, map(package_of, given.values()))))
    if len(kinds) > 1:
        name, remedy = getattr(function, "__name__", "gpureduce_dask"), "Make all of them with one of the packages."
        raise ArgumentError(message(name, f"arrays of {' and of '.join(kinds)}", "arrays of one package", remedy))
    if not kinds and DASK not in known:
        return function(*args, **kwargs)
    template = CallTemplate(kinds[0] if kinds else DASK, function, slots)
    return template.results(tuple(x.expr for x in given.values()), tuple(given.values()))


def _put(name: str, out: Any, found: Any, kind: str) -> Any:
    """Make ``out`` the array of a result, as dask does with arrays of graphs."""
    if not isinstance(found, array_class(kind)):
        received = f"out= of {kind} and a result of type {type(found).__name__}"
        raise ArgumentError(message(name, received, "arrays of one package", "Leave out= away."))
    if out.shape != found.shape:
        raise ArgumentError(message(name, f"out= of shape {out.shape}", f"shape {found.shape}", "Leave it out."))
    if hasattr(out, "_replace_expr"):  # of dask-array, which forgets what follows from the old one
        out._replace_expr(found.expr)
    else:
        out._expr = found.expr
    return out


@dataclass(frozen=True)
class Slot:
    """Where an operand stands among the arguments of a call."""

    number: int


def substitute(value: Any, kinds: Any, by: Callable[[Any], Any]) -> Any:
    """A value with all instances of ``kinds`` in it, and in its tuples, lists and dictionaries, replaced."""
    if isinstance(value, kinds):
        return by(value)
    if isinstance(value, tuple):
        each = [substitute(v, kinds, by) for v in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    if type(value) is list:
        return [substitute(v, kinds, by) for v in value]
    if isinstance(value, dict):
        return {key: substitute(v, kinds, by) for key, v in value.items()}
    return value


class CallTemplate:
    """A call with its operands left open, and what it gave of the last ones."""

    def __init__(self, package: str, function: Callable[..., Any], slots: Any) -> None:
        self.package, self.function, self.slots = package, function, slots
        self.context = copy_context()
        self.settings = {key: dask.config.get(key) for key in SETTINGS if dask.config.get(key, None) is not None}
        self.graphs: dict[Names, list[Any]] = {}
        self.together: tuple[Names, dict[Any, GraphNode]] | None = None  # the tasks of such results
        self.lock = Lock()

    def results(self, operands: tuple[Any, ...], arrays: tuple[Any, ...]) -> Any:
        """What the call gives, with expressions for the graph-based arrays in it."""
        stand_ins = [stand_in(x) for x in operands]
        own = {x.name: array for x, array in zip(stand_ins, arrays, strict=True)}
        found = self._run(stand_ins)
        graphs = _graphs(found)
        self.graphs[_names(operands)] = graphs
        numbers = iter(range(len(graphs)))

        def made(x: Any) -> Any:
            number = next(numbers)
            if x.name in own:  # what was given, untouched
                return own[x.name]
            # What the package itself has made of it, or the call's.
            expr = expression_of(x, self.package) or _class(self.package)(self, number, (), *operands)
            return array_class(self.package)(expr)

        return substitute(found, GraphArray, made)

    def graphs_of(self, operands: tuple[Any, ...]) -> list[Any]:
        """The graph-based arrays that the call gives of these operands."""
        names = _names(operands)
        with self.lock:
            if names not in self.graphs:
                stand_ins = [stand_in(x) for x in operands]
                with dask.config.set(self.settings):
                    self.graphs[names] = _graphs(self.context.copy().run(self._run, stand_ins))
                while len(self.graphs) > REMEMBERED:
                    del self.graphs[next(iter(self.graphs))]
            return self.graphs[names]

    def _run(self, stand_ins: Sequence[Any]) -> Any:
        args, kwargs = substitute(self.slots, Slot, lambda slot: stand_ins[slot.number])
        token = _is_inside.set(True)
        try:
            return self.function(*args, **kwargs)
        finally:
            _is_inside.reset(token)


def _graphs(found: Any) -> list[Any]:
    graphs: list[Any] = []
    substitute(found, GraphArray, graphs.append)
    return graphs


def _names(operands: Sequence[Any]) -> Names:
    return tuple(x._name for x in operands)


# ---- stand-ins


# Of expressions that are chunks in memory, with the name in their keys: all calls see one layer, as handles go by it.
_layers: WeakKeyDictionary[Any, tuple[str, MaterializedLayer]] = WeakKeyDictionary()


def stand_in(expr: Any) -> Any:
    """A graph-based array of an expression's name, chunks and meta, whose graph is made when somebody reads it."""
    name, layer = _layer(expr)
    graph = HighLevelGraph({name: layer}, {name: set()})
    return GraphArray(graph, name, expr.chunks, meta=expr._meta)


def _layer(expr: Any) -> tuple[str, Layer]:
    if type(expr).__name__ not in ("FromGraph", "FromArray") or expr.dependencies():
        return expr._name, Lazy(expr)
    if expr not in _layers:
        _layers[expr] = _chunks_of(expr)
    return _layers[expr]


def _chunks_of(expr: Any) -> tuple[str, MaterializedLayer]:
    """An expression's chunks: those of a persisted array as they are, for a tree asks where they lie."""
    found = expr._layer()
    futures = [value for value in found.values() if workers.is_future(value)]
    names = {future.key[0] for future in futures if isinstance(future.key, tuple)}
    if futures and len(futures) == len(found) and len(names) == 1:  # by the names that the scheduler has
        return names.pop(), MaterializedLayer({future.key: future for future in futures})
    return expr._name, MaterializedLayer(found)


class Lazy(Layer):
    """The tasks of an expression, written when they are first asked for."""

    def __init__(self, expr: Any) -> None:
        super().__init__()
        self.expr = expr

    @cached_property
    def _tasks(self) -> dict[Any, GraphNode]:
        return _tasks(self.expr.simplify(), self.expr._name)

    def __getitem__(self, key: Any) -> Any:
        return self._tasks[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def get_dependencies(self, key: Any, all_hlg_keys: Any) -> set[Any]:
        return {need for need in self._tasks[key].dependencies if need in all_hlg_keys}

    def is_materialized(self) -> bool:
        return "_tasks" in self.__dict__

    def get_output_keys(self) -> set[Any]:
        return set(_keys(self.expr._name, self.expr.numblocks))


def expression_of(x: Any, package: str) -> Any:
    """The expression of a package that a graph-based array stands for, or None."""
    layer = x.dask.layers.get(x.name)
    is_its = isinstance(layer, Lazy) and isinstance(layer.expr, private.expression_class(package))
    return layer.expr if is_its else None


def _tasks(expr: Any, name: str) -> dict[Any, GraphNode]:
    """The tasks of an expression, with this name in the keys of its chunks."""
    lowered = expr.lower_completely()
    found = private.tasks_of_expression(lowered)
    # dask makes numbers arrays of their own, on which all chunks then depend; tasks of graph-based arrays hold them.
    data = {key: node for key, node in found.items() if isinstance(node, DataNode)}
    numbers = {key: node for key, node in data.items() if isinstance(node.value, np.ndarray) and node.value.ndim == 0}
    if (lowered._name,) not in numbers:
        subs: dict[Any, Any] = {**numbers}
        found = {key: node.substitute(subs, key=key) for key, node in found.items() if key not in numbers}
    return found | _aliases(name, lowered._name, lowered.numblocks)


def _keys(name: str, numblocks: tuple[int, ...]) -> list[Any]:
    return [(name, *place) for place in product(*map(range, numblocks))]


def _aliases(name: str, old: str, numblocks: tuple[int, ...]) -> dict[Any, Any]:
    """Chunks of a name under another one, where that is another."""
    keys = zip(_keys(name, numblocks), _keys(old, numblocks), strict=True)
    return {} if name == old else {new: Alias(new, old) for new, old in keys}


# ---- results


class Reduced:
    """What a call gives, as an expression: its operands are the template, which of its arrays this is, what is
    optimised with it, and expressions.

    A class of each package's own is made of this one and the package's expressions.
    """

    _parameters = ("template", "which", "together")
    operands: list[Any]
    operand: Callable[[str], Any]

    def __init__(self, *operands: Any) -> None:
        """One of its own kind defeats the base's cache by name, which a persisted array and a lazy one may share."""

    def simplify_once(self, dependents: Any, simplified: dict[str, Any]) -> Any:
        found = super().simplify_once(dependents, simplified)  # type: ignore[misc]
        if found is self:  # nothing below changes any more
            is_call = isinstance(self.operand("template"), CallTemplate)
            self.operands[2] = _optimised_together(self, dependents) if is_call else ()
        return found

    def lower_once(self, lowered: dict[str, Any]) -> Any:
        """Its operands lowered; so as not to go by the cache of names either."""
        below = [x.lower_once(lowered) for x in self.below]
        return self if _names(below) == _names(self.below) else type(self)(*self.operands[:3], *below)

    @property
    def below(self) -> list[Any]:
        """The expressions that it is made of."""
        return self.operands[len(self._parameters) :]

    @cached_property
    def _array(self) -> Any:
        return self.operand("template").graphs_of(tuple(self.below))[self.operand("which")]

    @cached_property
    def _name(self) -> str:
        return str(self._array.name)

    @cached_property
    def chunks(self) -> Any:
        return self._array.chunks

    @cached_property
    def _meta(self) -> Any:
        return self._array._meta

    def __dask_tokenize__(self) -> str:
        return self._name

    def _layer(self) -> dict[Any, Any]:
        return self._tasks_with_operands() or self._tasks()

    def _tasks_with_operands(self) -> dict[Any, Any] | None:
        """Its tasks and all that they need, where others do not need that; dask drops the tasks that nothing needs."""
        together = dict(self.operand("together"))
        if not together:
            return None
        one = together[self.operand("template"), self.operand("which")]
        return _written_together(together) | _aliases(self._name, one.name, one.numblocks)

    def _tasks(self) -> dict[Any, Any]:
        below = set(_names(self.below))
        layers = self._array.dask.layers
        return {key: task for name, layer in layers.items() if name not in below for key, task in layer.items()}

    def __reduce__(self) -> Any:
        """Written out: what is sent to a scheduler does not plan there again."""
        package, whole = self.operand("template").package, self._tasks_with_operands()
        operands, tasks = () if whole else self.below, whole or self._tasks()
        written = MaterializedTemplate(package, self._name, self.chunks, self._meta, tasks, _names(operands))
        return _restored, (written, *operands)


def _restored(written: MaterializedTemplate, *operands: Any) -> Any:
    return _class(written.package)(written, 0, (), *operands)


@cache
def _class(package: str) -> Any:
    bases = (Reduced, private.expression_class(package))
    return type("GpuReduce", bases, {"_parameters": list(Reduced._parameters), "__module__": __name__})


# Results that are optimised together, as arrays of graphs before they are lowered: by template, and which result it is.
Together = tuple[tuple[tuple[CallTemplate, int], Any], ...]


def _optimised_together(one: Any, dependents: Any) -> Together:
    """All results, this one among them, that alone need what lies below them; nothing where others need some of it. The
    chunks of what lies in memory anyone may need."""
    results: dict[str, Any] = {one._name: one}
    above: dict[str, list[Any]] = {}
    seen: set[str] = set()
    ahead = [*one.below]
    while ahead:
        node = ahead.pop()
        if node._name in seen or _is_data(node):
            continue
        seen.add(node._name)
        found = _results_above(node, dependents, above)
        if isinstance(node, Reduced) or not found:
            return ()
        ahead += node.dependencies()
        for each in found:
            if each._name not in results:
                results[each._name] = each
                ahead += each.below
    each_one = [results[name] for name in sorted(results)]
    keys = [(x.operand("template"), x.operand("which")) for x in each_one]
    return tuple((key, key[0].graphs_of(tuple(x.below))[key[1]]) for x, key in zip(each_one, keys, strict=True))


def _results_above(one: Any, dependents: Any, above: dict[str, list[Any]]) -> list[Any]:
    """The results that alone need an expression, through others or not; nothing where something else needs it."""
    if one._name not in above:
        users = [user for ref in dependents[one._name] if (user := ref()) is not None]
        each = [[x] if isinstance(x, Reduced) else _results_above(x, dependents, above) for x in users]
        is_ours = all(each) and all(isinstance(x.operand("template"), CallTemplate) for found in each for x in found)
        above[one._name] = list({x._name: x for found in each for x in found}.values()) if is_ours else []
    return above[one._name]


def _is_data(expr: Any) -> bool:
    """True for chunks that lie in memory, and not for tasks, of which dask wrote some as tuples that begin with a
    function."""
    _, layer = _layer(expr)
    return not isinstance(layer, Lazy) and not any(
        isinstance(value, GraphNode) or (type(value) is tuple and bool(value) and callable(value[0]))
        for value in layer.values()
    )


def _written_together(together: dict[tuple[CallTemplate, int], Any]) -> dict[Any, GraphNode]:
    """Tasks of results with all that lies below them, optimised as graph-based arrays are: groups make their chunks."""
    (template, _), arrays = next(iter(together)), list(together.values())
    names = tuple(x.name for x in arrays)
    if template.together is None or template.together[0] != names:
        graph = HighLevelGraph.merge(*(x.dask for x in arrays))
        layers = {
            name: MaterializedLayer(_tasks(layer.expr, name)) if isinstance(layer, Lazy) else layer
            for name, layer in graph.layers.items()
        }
        keys = {key for x in arrays for key in _keys(x.name, x.numblocks)}
        found = fusion.OPTIMIZE(HighLevelGraph(layers, graph.dependencies), keys)
        template.together = names, private.as_tasks(found)
    return template.together[1]


@dataclass(eq=False)
class MaterializedTemplate:
    """What stands for a template where its tasks are written: they refer to operands by these names."""

    package: str
    name: str
    chunks: Any
    meta: Any
    tasks: dict[Any, Any]
    below: Names

    def graphs_of(self, operands: tuple[Any, ...]) -> list[Any]:
        tasks = dict(self.tasks)
        name = self.name
        if (names := _names(operands)) != self.below:
            for expr, old in zip(operands, self.below, strict=True):
                tasks |= _aliases(old, expr._name, expr.numblocks)
            name = f"{name}-{tokenize(names)}"
            tasks |= _aliases(name, self.name, tuple(map(len, self.chunks)))
        graph = HighLevelGraph({name: MaterializedLayer(tasks)}, {name: set()})
        return [GraphArray(graph, name, self.chunks, meta=self.meta)]


# ---- between both kinds


def as_graph(x: Any) -> Any:
    """A graph-based array of an array of any kind."""
    return x if package_of(x) is None else stand_in(x.expr)


def as_expression(x: Any) -> Any:
    """With query planning on an expression of a graph-based array."""
    if not isinstance(x, GraphArray) or not IS_PLANNED:
        return x
    if (expr := expression_of(x, DASK)) is not None:
        return array_class(DASK)(expr)
    return CallTemplate(DASK, lambda: x, ((), {})).results((), ())


call_by(call)
