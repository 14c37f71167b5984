"""What ``bench soak`` does to a cluster and to its clients, while these ask."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import dask.base

from ...errors import ArgumentError
from . import soak_calls
from .soak_calls import Rng

PATIENCE = 90.0  # seconds until an answer counts as never coming: a worker starts anew within ten, or several at once
PAUSE = (0.1, 2.5)  # seconds between faults
LATE = 1.0  # seconds after a cancel in which what it took may be asked for
MOST_ARRAYS = 4  # arrays that a client keeps in memory


class Hang(Exception):
    """An answer did not come within ``PATIENCE``."""


def within(seconds: float, function: Callable[[], Any]) -> Any:
    """What the function returns or raises; Hang where that takes longer, and then it goes on in a thread of its own."""
    box: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def put() -> None:
        try:
            box.put((function(), None))
        except BaseException as error:  # SystemExit and CancelledError too
            box.put((None, error))

    threading.Thread(target=put, daemon=True).start()
    try:
        found, error = box.get(timeout=seconds)
    except Empty:
        raise Hang from None
    if error is not None:
        raise error
    return found


class Asker:
    """A client, and the arrays that it holds: by number, since when, and the array."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.client = cluster, connect(cluster)
        self.connection = self.client.scheduler_comm
        self.lock = threading.Lock()  # of what a closed client held
        self.arrays: dict[int, tuple[float, Any]] = {}
        self.running: Any = None  # the futures of its call, where they are known
        self.closed = -math.inf  # when its client was

    def array(self, client: Any, number: int, on_gpu: bool) -> Any:
        """An array that this client of its holds, from now on where it did not."""
        if number in self.arrays:
            return self.arrays[number][1]
        for old in list(self.arrays)[: 1 - MOST_ARRAYS]:
            self.arrays.pop(old, None)
        since, x = time.monotonic(), client.persist(soak_calls.grid(number, on_gpu))
        with self.lock:
            if client is self.client:
                self.arrays[number] = since, x
        return x

    def compute(self, client: Any, lazy: list[Any], mode: str) -> Any:
        """The results: by one blocking call, as futures, or of arrays that stay on the workers."""
        if mode == "persisted":
            lazy = self.running = list(client.persist(lazy))
        if mode == "futures":
            self.running = client.compute(lazy)
            return client.gather(self.running)
        return dask.base.compute(*lazy)

    def let_go(self) -> None:
        self.arrays.clear()
        self.running = None

    def is_cut_off(self) -> bool:
        """True where the scheduler has closed the connection, with which a client loses all of its futures.

        A stock scheduler does so, by ``assert ts.who_wants`` in ``Scheduler.stimulus_cancel``, where a client cancels
        an array of which it has anything computed just now: tasks between the two are wanted by no client.
        """
        before, self.connection = self.connection, self.client.scheduler_comm
        return self.connection is not before

    def come_back(self) -> None:
        """Close the client, whatever it has under way, and connect another."""
        new = connect(self.cluster)
        with self.lock:
            old, self.client = self.client, new
            self.connection = new.scheduler_comm
            self.closed = time.monotonic()
            self.let_go()
        within(PATIENCE, old.close)


def connect(cluster: Any) -> Any:
    from distributed import Client

    return Client(cluster.scheduler_address, set_as_default=False)


@dataclass
class Site:
    """A cluster of so many workers, the client of who runs it, and those who ask."""

    operator: Any
    workers: int
    askers: list[Asker]
    cancelled: dict[int | None, float] = field(default_factory=dict)  # when: arrays by number, and results

    @property
    def cluster(self) -> Any:
        return self.operator.cluster

    def took(self, asker: Asker, number: int, since: float, begin: float) -> bool:
        """True where a fault took an array since it is there, or may have taken a result of a call that began then.

        It may be of the other client's: a scheduler tells all clients which keys one has cancelled, so that one that
        asks for the same just then gives up too (``Scheduler.stimulus_cancel``).
        """
        array, result = (self.cancelled.get(key, -math.inf) for key in (number, None))
        return array > since - LATE or max(result, asker.closed) > begin - LATE

    def addresses(self) -> dict[str, Any]:
        """The names of the workers that the scheduler knows, by address."""
        return {at: each["name"] for at, each in self.operator.scheduler_info(n_workers=-1)["workers"].items()}


def is_loss(error: BaseException, is_closed: bool) -> bool:
    """True for what a call may raise whose input or result the soak took away, or whose client it closed."""
    from concurrent.futures import CancelledError

    import distributed
    from distributed.comm.core import CommClosedError

    if isinstance(error, ArgumentError):
        return "which its cluster has given up" in str(error)
    if isinstance(error, CommClosedError):
        return is_closed  # of Client.gather, which asks the scheduler by a connection that the client closes
    return isinstance(error, (CancelledError, distributed.CancelledError))


def kill(site: Site, rng: Rng) -> None:
    """End a worker as the kernel does when memory runs out; its nanny starts another."""
    pids = [nanny.pid for nanny in list(site.cluster.workers.values()) if nanny.pid]
    if pids:
        os.kill(int(rng.choice(pids)), signal.SIGKILL)


def cancel_array(site: Site, rng: Rng) -> None:
    """Cancel the chunks of an array that a client holds."""
    asker = site.askers[int(rng.integers(2))]
    arrays = list(asker.arrays.items())
    if arrays:
        number, (_, x) = arrays[int(rng.integers(len(arrays)))]
        site.cancelled[number] = time.monotonic()
        asker.client.cancel(x)


def cancel_result(site: Site, rng: Rng) -> None:
    """Cancel what a client waits for."""
    asker = site.askers[int(rng.integers(2))]
    futures = asker.running
    if futures:
        site.cancelled[None] = time.monotonic()
        asker.client.cancel(futures)


def retire(site: Site, rng: Rng) -> None:
    """Have a worker hand on what it holds and leave; another comes."""
    names = site.addresses()
    if len(names) > 1:
        address = str(rng.choice(sorted(names)))
        site.operator.retire_workers([address])
        site.cluster.sync(site.cluster.scale_down, [names[address]])
    site.cluster.scale(site.workers)


def scale(site: Site, rng: Rng) -> None:
    """A cluster of a worker fewer for a while."""
    site.cluster.scale(max(1, site.workers - 1))
    time.sleep(rng.uniform(*PAUSE))
    site.cluster.scale(site.workers)


def delete_array(site: Site, rng: Rng) -> None:
    """Let go of an array that a client holds, perhaps while it is reduced."""
    arrays = site.askers[int(rng.integers(2))].arrays
    if arrays:
        arrays.pop(int(rng.choice(list(arrays))), None)


def restart(site: Site, rng: Rng) -> None:
    """Have a nanny start its worker anew."""
    addresses = sorted(site.addresses())
    if addresses:
        site.operator.restart_workers([str(rng.choice(addresses))], timeout=PATIENCE / 2, raise_for_error=False)


def reconnect(site: Site, rng: Rng) -> None:
    """Close a client, whatever it waits for, and have it come back."""
    site.askers[int(rng.integers(2))].come_back()


FAULTS: dict[str, Callable[[Site, Rng], None]] = {
    "kill": kill,
    "cancel array": cancel_array,
    "cancel result": cancel_result,
    "retire": retire,
    "scale": scale,
    "delete array": delete_array,
    "restart": restart,
    "reconnect": reconnect,
}
# A round's. Fewer of those that end a worker: on a machine of few cores its successor takes all of them for seconds.
DECK = (*FAULTS, "kill", *(name for name in FAULTS if name.startswith(("cancel", "delete")) for _ in range(2)))
