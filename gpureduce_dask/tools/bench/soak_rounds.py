"""The part of ``bench soak`` with faults: two clients ask, and a third thread ends workers and cancels what they hold.

A round deals out every fault twice, in an order that the seed draws. Behind it is a quiet point: all is let go, the
workers come back, and the scheduler must be as it was before the first round.
"""

from __future__ import annotations

import gc
import itertools
import json
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np

from . import soak, soak_calls, soak_faults, trees
from .progress import progress
from .soak_calls import Rng
from .soak_faults import Asker, Hang, Site, is_loss, within

Row = dict[str, Any]
Result = dict[str, Any]

# Seconds that a scheduler and its workers have to forget what nobody holds: a worker that asks one which was killed
# just then gives up after 30 (dask's distributed.comm.timeouts.connect).
CALM = 45.0
CLIENTS, OF_A_WORKER = ("clients", "client_comms"), "Client-worker-"  # how dask names the client of a worker's tasks
HEARTBEAT = 2.0  # seconds in which workers have told of every task
SHORT = 5  # seconds that a worker has to say what it does
MOST_KEYS = 200  # of each state that a report lists
MOST_TEXT = 2000  # of it on the screen
ENOUGH = 10  # quiet points from which memory is judged: modules load and pools fill before
# A task may lose as many workers as die in a round, and still is no task that kills them.
FAULTY = {"distributed.scheduler.allowed-failures": 1000}
# Both at the same time, with draws of their own; with the same draws, of one scheduler's keys; one after another. In
# rounds of the first kind one client may hold an array that the other makes as it goes.
ROUNDS = ("apart", "alike", "in turn")
BAD = ("wrong", "failed", "hangs", "leaks", "short", "grown")


class Soak:
    """Those who ask on a cluster, and what came of it."""

    def __init__(self, operator: Any, on_gpu: bool, workers: int, seed: int, result: Result) -> None:
        self.site = Site(operator, workers, [Asker(operator.cluster) for _ in range(2)])
        self.operator, self.on_gpu, self.seed, self.result = operator, on_gpu, seed, result
        self.number = 0  # of the round
        self.calls: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.turn = threading.Lock()
        self.is_over = threading.Event()

    def note(self, what: str, **about: Any) -> None:
        """Write down what went wrong, and say so at once."""
        print(f"seed {self.seed}: {what}: {json.dumps(about)[:MOST_TEXT]}", flush=True)
        self.result[what].append(about)

    def rng(self, *about: int) -> Rng:
        return np.random.default_rng((self.seed, *about))

    def round(self, number: int) -> None:
        """Both ask until every fault has come."""
        self.number = number
        self.is_over.clear()
        threads = [threading.Thread(target=self.ask, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        rng = self.rng(number, 2)
        for name in rng.permutation(soak_faults.DECK):
            time.sleep(rng.uniform(*soak_faults.PAUSE))
            self.fault(str(name), rng)
        self.is_over.set()
        for thread in threads:
            thread.join()

    def fault(self, name: str, rng: Rng) -> None:
        try:
            within(soak_faults.PATIENCE, partial(soak_faults.FAULTS[name], self.site, rng))
        except Hang:
            self.note("hangs", call=name, **self.state())
        except Exception:
            self.note("failed", call=name, error=traceback.format_exc())
        self.faults[name] += 1

    def is_mixed(self) -> bool:
        return ROUNDS[self.number % len(ROUNDS)] == "apart"

    def ask(self, which: int) -> None:
        """One client's calls of a round."""
        kind = ROUNDS[self.number % len(ROUNDS)]
        rng = self.rng(self.number, 0 if kind == "alike" else which)
        turn: AbstractContextManager[Any] = self.turn if kind == "in turn" else nullcontext()
        while not self.is_over.is_set():
            for name in rng.permutation(list(soak_calls.CALLS)):
                if not self.is_over.is_set():
                    with turn:
                        self.call(self.site.askers[which], str(name), rng)

    def call(self, asker: Asker, kind: str, rng: Rng) -> None:
        """Compute one call, and compare it with NumPy."""
        number, is_persisted = int(rng.integers(soak_calls.GRIDS)), bool(rng.random() < 0.6)
        if not self.is_mixed():
            is_persisted = (number + self.number) % 2 == 0
        mode = str(rng.choice(["blocking", "futures", "persisted"]))
        client, begin = asker.client, time.monotonic()
        since, _ = asker.arrays.get(number, (begin, None))
        about = {"kind": kind, "grid": number, "held": is_persisted, "how": mode}

        def answer() -> tuple[soak_calls.Call, Any]:
            with client.as_current():
                x = asker.array(client, number, self.on_gpu) if is_persisted else soak_calls.grid(number, self.on_gpu)
                call = soak_calls.draw(rng, x, soak_calls.values(number), kind)
                about["call"] = call.about
                return call, asker.compute(client, call.results, mode)

        try:
            call, got = within(soak_faults.PATIENCE, answer)
            for found, wanted in zip(got, call.wanted, strict=True):
                if not soak_calls.is_right(found, wanted):
                    self.note("wrong", **about, got=str(found), wanted=str(wanted))
        except Hang:
            self.note("hangs", **about, **self.state())
            asker.come_back()
        except Exception as error:
            is_lost = self.site.took(asker, number, since, begin)
            if asker.is_cut_off():
                self.errors["connections that the scheduler closed"] += 1
                asker.let_go()
                is_lost = True
            if is_lost and is_loss(error, asker.client is not client):
                self.errors[type(error).__name__] += 1
            else:
                self.note("failed", **about, error=traceback.format_exc())
            asker.arrays.pop(number, None)
            # A stock client keeps the error of a future that another one cancelled; its frames keep that future, and
            # the arrays that were asked for, for as long as the client lives.
            error.__traceback__ = None
        self.calls[kind] += 1
        asker.running = None

    def state(self) -> Row:
        """The scheduler's tasks by state, and those of each worker that answers."""
        ask = partial(self.operator.run, worker_state, on_error="return", callback_timeout=SHORT)
        try:
            workers = {at: each if isinstance(each, dict) else repr(each) for at, each in within(CALM, ask).items()}
        except (Hang, TimeoutError) as error:
            workers = {"none": repr(error)}
        return {"scheduler": self.operator.run_on_scheduler(scheduler_state), "workers": workers}

    def rest(self, seconds: float) -> None:
        """A quiet point: let go of everything; the workers must be there, and nothing of ours on the scheduler."""
        for asker in self.site.askers:
            asker.let_go()
        self.site.cluster.scale(self.site.workers)
        if not until(soak_faults.PATIENCE, lambda: len(self.site.addresses()) == self.site.workers):
            self.note("short", **self.state())
        known = {each["key"] for what in ("leaks", "orphans") for each in self.result[what]}
        until(CALM, lambda: not self.left().keys() - known)
        left = self.left()
        for key in sorted(left.keys() - known):
            if self.is_mixed() and is_orphan(left[key]):
                self.result["orphans"].append({"key": key})
            else:
                clients = [asker.client for asker in self.site.askers]
                futures = [client.id for client in clients if key in map(str, client.futures)]
                self.note("leaks", key=key, futures=futures, **left[key])
        time.sleep(HEARTBEAT)
        self.operator.run_on_scheduler(soak.tidy)
        sizes = self.operator.run_on_scheduler(scheduler_sizes)
        first = self.result.setdefault("sizes", sizes)
        for name in sizes:
            if sizes[name] > first[name]:
                self.note("grown", name=name, first=first[name], now=sizes[name])
        memory = self.operator.run(soak.resident, on_error="ignore")
        workers = [memory[address] for address in sorted(memory)]
        self.result["samples"].append({"seconds": seconds, "client": soak.resident(), "workers": workers})
        self.result |= {"calls": dict(self.calls), "faults": dict(self.faults), "errors": dict(self.errors)}

    def left(self) -> dict[str, Row]:
        """The tasks that the scheduler or a worker still has."""
        gc.collect()
        found: dict[str, Row] = self.operator.run_on_scheduler(scheduler_tasks)
        for at, states in self.operator.run(worker_state, on_error="ignore").items():
            for state, keys in states.items():
                for key in keys:
                    found.setdefault(key, {}).setdefault("workers", {})[at] = state
        return found


def until(seconds: float, is_so: Callable[[], bool]) -> bool:
    """True as soon as it is so; False where it never was."""
    end = time.monotonic() + seconds
    while not (found := is_so()) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def is_orphan(task: Row) -> bool:
    """True for a task that nobody waits for and that never ran.

    Stock graphs leave such: where one client holds an array that another makes as it goes, a scheduler is given a task
    under one key twice, with other dependencies. It warns of a "different run_spec" and keeps the first, and with it
    for good the dependencies of the second, which no task needs.
    """
    return task.get("state") == "released" and not task["wanted by"] and not task["waiters"]


def scheduler_state(dask_scheduler: Any) -> Row:
    """Its tasks by state, and what its workers have to do."""
    found: dict[str, list[Row]] = {}
    for key, task in scheduler_tasks(dask_scheduler).items():
        found.setdefault(task["state"], []).append({"key": key, **task})
    workers = {
        w.address: {"name": str(w.name), "status": w.status.name, "processing": [str(t.key) for t in w.processing]}
        for w in dask_scheduler.workers.values()
    }
    return {"tasks": {state: rows[:MOST_KEYS] for state, rows in found.items()}, "workers": workers}


def scheduler_tasks(dask_scheduler: Any) -> dict[str, Row]:
    """By key, who waits for a task, and where it is. Of clients that want it, which ones the scheduler knows."""
    known = {id(each) for each in dask_scheduler.clients.values()}
    return {
        str(key): {
            "state": task.state,
            "on": task.processing_on.address if task.processing_on else None,
            "held by": [w.address for w in task.who_has or ()],
            "wanted by": [c.client_key if id(c) in known else f"{c.client_key}, gone" for c in task.who_wants or ()],
            "waiters": [str(t.key) for t in task.waiters or ()],
            "waits for": [str(t.key) for t in task.waiting_on or ()],
            "dependents": [str(t.key) for t in task.dependents],
        }
        for key, task in dask_scheduler.tasks.items()
    }


def worker_state(dask_worker: Any) -> dict[str, list[str]]:
    """A worker's tasks by state."""
    found: dict[str, list[str]] = {}
    for key, task in dask_worker.state.tasks.items():
        found.setdefault(task.state, []).append(str(key))
    return {state: keys[:MOST_KEYS] for state, keys in found.items()}


def scheduler_sizes(dask_scheduler: Any) -> dict[str, int]:
    """How much is installed on a scheduler, and who is connected.

    Without the one client that dask keeps for the tasks of a worker that ask for one.
    """
    names = ("plugins", "extensions", "handlers", "stream_handlers", "stream_comms")
    sizes = {name: len(getattr(dask_scheduler, name)) for name in names}
    for name in CLIENTS:
        sizes[name] = sum(not client.startswith(OF_A_WORKER) for client in getattr(dask_scheduler, name))
    return sizes


def run(gpus: int, workers: int, minutes: float, seed: int, path: Path) -> Result:
    """Rounds until the time is up, at least one; the JSON is written behind each."""
    result: Result = {"seed": seed, "date": time.strftime("%Y-%m-%d"), "workers": gpus or workers, "samples": []}
    result |= {what: [] for what in (*BAD, "orphans")}
    print(f"seed {seed}", flush=True)
    with dask.config.set(soak.SHORT_LOGS | FAULTY), trees.cluster(gpus, workers) as operator:
        it = Soak(operator, gpus > 0, gpus or workers, seed, result)
        begin = time.monotonic()
        it.rest(0.0)
        for number in itertools.count():
            it.round(number)
            it.rest(time.monotonic() - begin)
            path.write_text(json.dumps(result, indent=1))
            calls, faults = (sum(result[what].values()) for what in ("calls", "faults"))
            spent = (time.monotonic() - begin) / 60
            progress(f"round {number}, {spent:.1f} of {minutes:g} minutes: {calls} calls, {faults} faults")
            if time.monotonic() - begin > 60 * minutes:
                break
        for asker in it.site.askers:
            asker.client.close()
    return result


def growth(result: Result) -> float:
    """Bytes by which the memory of clients and scheduler grew since it settled: 0 for a soak too short to say."""
    samples = soak.settled(result["samples"])
    return soak.grown([s["client"] for s in samples]) if len(samples) >= ENOUGH else 0.0


def is_clean(result: Result) -> bool:
    """True where nothing was wrong, hung, failed or stayed behind, and the scheduler's memory is flat."""
    return not any(result[what] for what in BAD) and growth(result) <= soak.ALLOWED


def summary(result: Result) -> str:
    """Calls, faults and errors by kind, what went wrong, and memory, in MiB."""
    first, last = result["samples"][0], result["samples"][-1]
    bad = ", ".join(f"{len(result[what])} {what}" for what in BAD)
    mark = "" if growth(result) <= soak.ALLOWED else "  GROWS"
    return "\n".join(
        [
            f"seed {result['seed']}, {result['workers']} workers, {last['seconds'] / 60:.1f} minutes: {bad}; "
            f"{len(result['orphans'])} orphans, as stock dask leaves them",
            *(f"  {what}: {_listed(result[what])}" for what in ("calls", "faults", "errors")),
            f"  clients and scheduler: {_mib(first['client'])} MiB before, {_mib(last['client'])} at the end, "
            f"{growth(result) / 2**20:+.1f} MiB since it settled{mark}",
            f"  workers: {', '.join(map(_mib, last['workers']))} MiB at the end",
            *(f"  {what}: {json.dumps(each)[:MOST_TEXT]}" for what in BAD for each in result[what]),
        ]
    )


def _listed(counts: dict[str, int]) -> str:
    return f"{sum(counts.values())} ({', '.join(f'{n} {name}' for name, n in sorted(counts.items()))})"


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f}"
