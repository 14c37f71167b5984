"""The part of ``bench soak`` with faults: two clients ask, and a third thread ends workers and cancels what they hold.

A round deals out every fault twice, in an order that the seed draws. Behind it is a quiet point: all is let go, the
workers come back, and the scheduler must be as it was before the first round.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import dask
import dask.base
import numpy as np

from ...errors import ArgumentError
from . import soak, soak_calls, trees
from .soak_calls import Rng

Row = dict[str, Any]
Result = dict[str, Any]

PATIENCE = 90.0  # seconds until an answer counts as never coming: a worker starts anew within ten, or several at once
CALM = 20.0  # seconds that a scheduler and its workers have to forget what nobody holds
PAUSE = (0.1, 2.5)  # seconds between faults
HELD = 4  # arrays that a client keeps in memory
MOST_KEYS = 200  # of each state that a report lists
ENOUGH = 10  # quiet points from which memory is judged
# A task may lose as many workers as die in a round, and still is no task that kills them.
FAULTY = {"distributed.scheduler.allowed-failures": 1000}
# Both at the same time, with draws of their own; with the same draws, of one scheduler's keys; one after another.
ROUNDS = ("apart", "alike", "in turn")


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
    """A client, the arrays that it holds by number, and what a fault took from it."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.client = cluster, connect(cluster)
        self.held: dict[int, Any] = {}
        self.lost: set[int] = set()  # arrays whose chunks were cancelled
        self.running: Any = None  # the futures of its call, where they are known
        self.faults = 0  # that could reach the call which it has under way

    def array(self, number: int, on_gpu: bool) -> Any:
        """An array that it holds, from now on where it did not."""
        x = self.held.get(number)
        if x is None:
            for old in list(self.held)[: 1 - HELD]:
                self.held.pop(old, None)
            x = self.held[number] = self.client.persist(soak_calls.grid(number, on_gpu))
            self.lost.discard(number)
        return x

    def compute(self, lazy: list[Any], how: str) -> Any:
        """The results: by one blocking call, as futures, or of arrays that stay on the workers."""
        if how == "persisted":
            lazy = self.running = list(self.client.persist(lazy))
        if how == "futures":
            self.running = self.client.compute(lazy)
            return self.client.gather(self.running)
        return dask.base.compute(*lazy)

    def let_go(self) -> None:
        self.held.clear()
        self.lost.clear()
        self.running = None

    def come_back(self) -> None:
        """Close the client, whatever it has under way, and connect another."""
        old = self.client
        self.faults += 1
        self.let_go()
        self.client = connect(self.cluster)
        within(PATIENCE, old.close)


def connect(cluster: Any) -> Any:
    from distributed import Client

    return Client(cluster.scheduler_address, set_as_default=False)


class Soak:
    """A cluster, those who ask, and what came of it."""

    def __init__(self, operator: Any, on_gpu: bool, workers: int, seed: int, result: Result) -> None:
        self.operator, self.cluster, self.on_gpu, self.workers = operator, operator.cluster, on_gpu, workers
        self.seed, self.result = seed, result
        self.askers = [Asker(self.cluster) for _ in range(2)]
        self.calls: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.turn = threading.Lock()
        self.is_over = threading.Event()

    def note(self, what: str, **about: Any) -> None:
        """Write down what went wrong."""
        print(f"seed {self.seed}: {what}: {json.dumps(about)[:2000]}", flush=True)
        self.result[what].append(about)

    def rng(self, *about: int) -> Rng:
        return np.random.default_rng((self.seed, *about))

    def round(self, number: int) -> None:
        """Both ask until every fault has come."""
        kind = ROUNDS[number % len(ROUNDS)]
        self.is_over.clear()
        threads = [
            threading.Thread(target=self.ask, args=(i, number, kind), daemon=True) for i in range(len(self.askers))
        ]
        for thread in threads:
            thread.start()
        rng = self.rng(number, 0)
        for name in rng.permutation([*FAULTS, *FAULTS]):
            time.sleep(rng.uniform(*PAUSE))
            self.fault(str(name), rng)
        self.is_over.set()
        for thread in threads:
            thread.join()

    def fault(self, name: str, rng: Rng) -> None:
        try:
            within(PATIENCE, partial(FAULTS[name], self, rng))
        except Hang:
            self.note("hangs", call=name, **self.state())
        except Exception:
            self.note("failed", call=name, error=traceback.format_exc())
        self.faults[name] += 1

    def ask(self, which: int, number: int, kind: str) -> None:
        """One client's calls of a round."""
        rng = self.rng(number, 1 if kind == "alike" else 1 + which)
        turn: AbstractContextManager[Any] = self.turn if kind == "in turn" else nullcontext()
        while not self.is_over.is_set():
            for name in soak_calls.kinds(rng):
                with turn:
                    self.call(self.askers[which], name, rng)
                if self.is_over.is_set():
                    break

    def call(self, asker: Asker, kind: str, rng: Rng) -> None:
        """Compute one call, and compare it with NumPy."""
        number, is_held = int(rng.integers(soak_calls.GRIDS)), bool(rng.random() < 0.6)
        how = str(rng.choice(["blocking", "futures", "persisted"]))
        faults, about = asker.faults, {"kind": kind, "grid": number, "held": is_held, "how": how}

        def answer() -> tuple[soak_calls.Call, Any]:
            with asker.client.as_current():
                x = asker.array(number, self.on_gpu) if is_held else soak_calls.grid(number, self.on_gpu)
                call = soak_calls.draw(rng, x, soak_calls.values(number), kind)
                about["call"] = call.about
                return call, asker.compute(call.results, how)

        try:
            call, got = within(PATIENCE, answer)
            for found, wanted in zip(got, call.wanted, strict=True):
                if not soak_calls.is_right(found, wanted):
                    self.note("wrong", **about, got=str(found)[:500], wanted=str(wanted)[:500])
        except Hang:
            self.note("hangs", **about, **self.state())
            asker.come_back()
        except Exception as error:
            is_ours = asker.faults != faults or (is_held and number in asker.lost)
            if is_ours and is_loss(error):
                self.errors[type(error).__name__] += 1
            else:
                self.note("failed", **about, error=traceback.format_exc())
            asker.held.pop(number, None)
        self.calls[kind] += 1
        asker.running = None

    def state(self) -> Row:
        """The scheduler's tasks by state, and those of each worker."""
        found: Row = {"scheduler": within(PATIENCE, partial(self.operator.run_on_scheduler, scheduler_state))}
        try:
            found["workers"] = within(
                PATIENCE, partial(self.operator.run, worker_state, on_error="return", callback_timeout=10)
            )
        except (Hang, TimeoutError) as error:
            found["workers"] = repr(error)
        found["workers"] = json.loads(json.dumps(found["workers"], default=repr))
        return found

    def rest(self, seconds: float) -> None:
        """A quiet point: let go of everything; the workers must be there, and nothing of ours on the scheduler."""
        for asker in self.askers:
            asker.let_go()
        self.cluster.scale(self.workers)
        end = time.monotonic() + PATIENCE
        while self.known() != self.workers and time.monotonic() < end:
            time.sleep(0.2)
        if self.known() != self.workers:
            self.note("short", workers=self.known(), state=self.state())
        old = self.result["leaks"]
        end = time.monotonic() + CALM
        while (left := self.left() - {each["key"] for each in old}) and time.monotonic() < end:
            time.sleep(0.2)
        for key in sorted(left):
            self.note("leaks", key=key, about=self.operator.run_on_scheduler(about_task, key))
        sizes = self.operator.run_on_scheduler(scheduler_sizes)
        first = self.result.setdefault("sizes", sizes)
        for name in sizes:
            if sizes[name] > first[name]:
                self.note("grown", name=name, first=first[name], now=sizes[name])
        memory = self.operator.run(soak.resident, on_error="ignore")
        workers = [memory[address] for address in sorted(memory)]
        self.result["samples"].append({"seconds": seconds, "client": soak.resident(), "workers": workers})
        self.result |= {"calls": dict(self.calls), "faults": dict(self.faults), "errors": dict(self.errors)}

    def known(self) -> int:
        return len(self.operator.scheduler_info(n_workers=-1)["workers"])

    def left(self) -> set[str]:
        """The keys that the scheduler or a worker still has."""
        gc.collect()
        self.operator.run_on_scheduler(soak.tidy)
        found = self.operator.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
        on_workers = self.operator.run(
            lambda dask_worker: [str(key) for key in dask_worker.state.tasks], on_error="ignore"
        )
        return {*found, *(key for keys in on_workers.values() for key in keys)}


def is_loss(error: BaseException) -> bool:
    """True for what a call may raise whose input, result or client the soak took away."""
    from concurrent.futures import CancelledError

    import distributed

    if isinstance(error, ArgumentError):
        return "given up" in str(error)
    return isinstance(error, (CancelledError, distributed.CancelledError))


def kill(it: Soak, rng: Rng) -> None:
    """End a worker as the kernel does when memory runs out; its nanny starts another."""
    pids = [nanny.pid for nanny in list(it.cluster.workers.values()) if nanny.pid]
    if pids:
        os.kill(int(rng.choice(pids)), signal.SIGKILL)


def cancel_array(it: Soak, rng: Rng) -> None:
    """Cancel the chunks of an array that a client holds."""
    asker = it.askers[int(rng.integers(2))]
    held = list(asker.held.items())
    if held:
        number, x = held[int(rng.integers(len(held)))]
        asker.lost.add(number)
        asker.client.cancel(x)


def cancel_result(it: Soak, rng: Rng) -> None:
    """Cancel what a client waits for."""
    asker = it.askers[int(rng.integers(2))]
    futures = asker.running
    if futures:
        asker.faults += 1
        asker.client.cancel(futures)


def retire(it: Soak, rng: Rng) -> None:
    """Have a worker hand on what it holds and leave; another comes."""
    found = it.operator.scheduler_info(n_workers=-1)["workers"]
    if len(found) > 1:
        address = str(rng.choice(sorted(found)))
        it.operator.retire_workers([address])
        it.cluster.sync(it.cluster.scale_down, [found[address]["name"]])
    it.cluster.scale(it.workers)


def scale(it: Soak, rng: Rng) -> None:
    """A cluster of a worker fewer for a while."""
    it.cluster.scale(max(1, it.workers - 1))
    time.sleep(rng.uniform(*PAUSE))
    it.cluster.scale(it.workers)


def delete_array(it: Soak, rng: Rng) -> None:
    """Let go of an array that a client holds, perhaps while it is reduced."""
    held = it.askers[int(rng.integers(2))].held
    if held:
        held.pop(int(rng.choice(list(held))), None)


def restart(it: Soak, rng: Rng) -> None:
    """Have a nanny start its worker anew."""
    addresses = sorted(it.operator.scheduler_info(n_workers=-1)["workers"])
    if addresses:
        it.operator.restart_workers([str(rng.choice(addresses))], timeout=PATIENCE / 2, raise_for_error=False)


def reconnect(it: Soak, rng: Rng) -> None:
    """Close a client, whatever it waits for, and have it come back."""
    it.askers[int(rng.integers(2))].come_back()


FAULTS: dict[str, Callable[[Soak, Rng], None]] = {
    "kill": kill,
    "cancel array": cancel_array,
    "cancel result": cancel_result,
    "retire": retire,
    "scale": scale,
    "delete array": delete_array,
    "restart": restart,
    "reconnect": reconnect,
}


def scheduler_state(dask_scheduler: Any) -> Row:
    """Its tasks by state, and what its workers have to do."""
    found: dict[str, list[Row]] = {}
    for key, task in dask_scheduler.tasks.items():
        rows = found.setdefault(task.state, [])
        if len(rows) < MOST_KEYS:
            rows.append({"key": str(key), **_about(task)})
    workers = {
        w.address: {"name": str(w.name), "status": w.status.name, "processing": [str(t.key) for t in w.processing]}
        for w in dask_scheduler.workers.values()
    }
    return {"tasks": found, "workers": workers}


def about_task(key: str, dask_scheduler: Any) -> Row | None:
    """The same of the task whose key reads so."""
    return next((_about(task) for each, task in dask_scheduler.tasks.items() if str(each) == key), None)


def _about(task: Any) -> Row:
    """Who waits for a task, and where it is."""
    return {
        "state": task.state,
        "on": task.processing_on.address if task.processing_on else None,
        "held by": [w.address for w in task.who_has or ()],
        "wanted by": [c.client_key for c in task.who_wants or ()],
        "waiters": [str(t.key) for t in task.waiters or ()],
        "waits for": [str(t.key) for t in task.waiting_on or ()],
    }


def worker_state(dask_worker: Any) -> dict[str, list[str]]:
    """A worker's tasks by state."""
    found: dict[str, list[str]] = {}
    for key, task in dask_worker.state.tasks.items():
        found.setdefault(task.state, []).append(str(key))
    return {state: keys[:MOST_KEYS] for state, keys in found.items()}


def scheduler_sizes(dask_scheduler: Any) -> dict[str, int]:
    """How much is installed on a scheduler, and who is connected."""
    names = ("plugins", "extensions", "handlers", "stream_handlers", "clients", "client_comms", "stream_comms")
    return {name: len(getattr(dask_scheduler, name)) for name in names}


def run(gpus: int, workers: int, minutes: float, seed: int, path: Path) -> Result:
    """Rounds until the time is up, at least one; the JSON is written behind each."""
    result: Result = {"seed": seed, "date": time.strftime("%Y-%m-%d"), "workers": gpus or workers, "samples": []}
    result |= {what: [] for what in BAD}
    print(f"seed {seed}", flush=True)
    with dask.config.set(soak.SHORT_LOGS | FAULTY), trees.cluster(gpus, workers) as operator:
        it = Soak(operator, gpus > 0, gpus or workers, seed, result)
        begin = time.monotonic()
        it.rest(0.0)
        for number in _numbers():
            it.round(number)
            spent = time.monotonic() - begin
            it.rest(spent)
            path.write_text(json.dumps(result, indent=1))
            if spent > 60 * minutes:
                break
        for asker in it.askers:
            asker.client.close()
    return result


def _numbers() -> Iterator[int]:
    import itertools

    return itertools.count()


BAD = ("wrong", "failed", "hangs", "leaks", "short", "grown")
