"""Which workers hold the chunks of arrays, or what these are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from . import held as held_handles
from . import workers
from .handles import Coords

Holders = dict[Coords, tuple[str, ...]]  # the workers that hold each chunk


def survey(client: Any, arrays: list[tuple[str, Coords, Any]]) -> tuple[workers.Workers, list[list[tuple[str, ...]]]]:
    """The workers that hold each chunk of arrays, in C order; arrays are given by name, numbers of blocks and layer.
    No arrays where not all chunks are in memory."""
    layers = [layer.mapping for _, _, layer in arrays]
    if not client.asynchronous and all(map(is_whole, layers)):
        known, found = workers.survey(client, [(name, numblocks) for name, numblocks, _ in arrays])
        if found and all(map(all, found)):
            return known, found
    return workers.of_client(client), []


def is_whole(futures: Mapping[Any, Any]) -> bool:
    """True for futures of just these keys that are all in memory."""
    values = futures.values()
    if not workers.are_futures(values) or [future.key for future in values] != [*futures]:
        return False
    return all(future.status == "finished" for future in values)


def by_coords(numblocks: Coords, found: Sequence[tuple[str, ...]]) -> Holders:
    """What is found of each chunk in C order."""
    return dict(zip(product(*map(range, numblocks)), found, strict=True))


def origins(x: Any) -> tuple[Holders, workers.Workers] | None:
    """Which workers hold what the chunks are made of: a persisted array of the same blocks that they come from."""
    last = tuple(n - 1 for n in x.numblocks)
    for name, layer in x.dask.layers.items():
        mapping = getattr(layer, "mapping", {})
        if len(mapping) != x.npartitions or (name, *last) not in mapping:
            continue
        first = next(iter(mapping.values()))
        client = first.client if workers.is_future(first) else None
        if client is None:
            continue
        held = held_handles.find(layer, client)
        if held is not None:
            return held.holders(), workers.of_client(client)
        known, found = survey(client, [(name, x.numblocks, layer)])
        if found:
            return by_coords(x.numblocks, found[0]), known
    return None
