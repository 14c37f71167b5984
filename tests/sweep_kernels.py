"""Compiles the kernels of :func:`kernel_calls.listing`, by hand: python tests/sweep_kernels.py

1. Every kernel goes through the compiler's front end: parsed, checked and instantiated.
2. Machine code is made of each operator type in each kernel, and of each way such a kernel goes (see
   :func:`kernel_facts.variant`), with the architectures in turn. Of kernels alike, one that holds most is taken.
3. Machine code of each operator type in each kernel is made for the architectures that are left.
4. ``python tests/sweep_kernels.py 60`` goes on with all others, on every architecture, for so many minutes.

What spills, does not load as widely as planned or does not compile is printed and, with counts and registers, written
to ``build/compiled/report.json``. Facts are kept beside it by what the front end gives to the next stage, so that a
sweep that was broken off goes on where it was, and only kernels that have changed are compiled again. An hour or two on
two processors when all have changed: 5 minutes for 1, a third of a second for each of 13,000 kernels in 2 and 3.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from cupy_backends.cuda.libs import nvrtc
from kernel_calls import listing
from kernel_facts import ARCHITECTURES, Facts, batched, chosen, facts_of, faults, front_end, in_flight, variant

from gpureduce_dask.device import compile as compiler
from gpureduce_dask.device import sources
from gpureduce_dask.errors import CompileError

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "compiled"
REPORT = KEPT / "report.json"
BATCH = 12  # kernels a program of machine code

Names = list[str]
Group = tuple[str, str]  # a kernel and its operator's type
Wanted = list[tuple[str, str]]  # architecture and name
STEPS = ("operators in kernels", "ways of each", "each on all architectures")


# ---- what is to be compiled


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def text_digest() -> str:
    """Of the kernels' text without comments, and of how it is compiled."""
    lines = [re.sub(r"//.*", "", line).strip() for line in sources.source().splitlines()]
    text = [line for line in lines if line and not line.startswith("#line")]
    return digest("\n".join([*text, repr(compiler.OPTIONS)]))


def list_digest(names: Iterable[str]) -> str:
    return digest("\n".join(sorted(names)))


def group_of(name: str) -> Group:
    """Folds of an operator's states are with it, and all casts together."""
    what = chosen(name)
    operator = what.arguments["Op"].removeprefix("Refold<")
    return what.kernel, "Casting<" if operator.startswith("Casting<") else operator.rstrip("> ")


def groups(names: Iterable[str]) -> dict[Group, Names]:
    found: dict[Group, Names] = {}
    for name in sorted(names):
        found.setdefault(group_of(name), []).append(name)
    return found


def wanted(names: Iterable[str]) -> dict[str, Wanted]:
    """Machine code that a sweep must make, in its order: see 2 and 3 above."""
    found: dict[str, Wanted] = {step: [] for step in STEPS}
    for alike in groups(names).values():
        ways: dict[tuple[str, ...], Names] = {}
        for name in alike:
            ways.setdefault(variant(chosen(name)), []).append(name)
        first, some = zlib.crc32(alike[0].encode()), [*ways.values()]
        for i in range(max(3, len(some))):
            step = STEPS[0] if i == 0 else STEPS[1] if i < len(some) else STEPS[2]
            architecture = ARCHITECTURES[(first + i) % 3]
            found[step].append((architecture, _heaviest(some[i % len(some)], architecture)))
    return found


def _heaviest(names: Names, architecture: str) -> str:
    """Which of those that hold as much, results or a partial, say, is another on each architecture."""
    return max(names, key=lambda name: (in_flight(chosen(name)), zlib.crc32((architecture + name).encode())))


# ---- what has been compiled


class Results:
    """Results in lines of JSON, found again by their keys."""

    def __init__(self, name: str) -> None:
        KEPT.mkdir(parents=True, exist_ok=True)
        self.path = KEPT / f"{name}-{'.'.join(map(str, nvrtc.getVersion()))}.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.found: dict[tuple[str, ...], Any] = {tuple(key): value for key, value in map(json.loads, lines)}

    def add(self, results: Iterable[tuple[Sequence[str], Any]]) -> None:
        with self.path.open("a") as file:
            for key, value in results:
                self.found[tuple(key)] = value
                file.write(json.dumps([key, value]) + "\n")


def checked(job: tuple[Group, Names, str]) -> tuple[Group, Any]:
    """The digest of a group, or what the compiler says."""
    group, names, text = job
    try:
        return group, front_end(names, text=text)
    except CompileError as error:
        return group, {"error": str(error)}


def compiled(job: tuple[str, Names, str]) -> tuple[str, dict[str, Any]]:
    """The facts of a batch, or what the compiler says of those that do not compile."""
    architecture, names, text = job
    try:
        return architecture, {name: asdict(facts) for name, facts in facts_of(names, architecture, text).items()}
    except CompileError as error:
        if len(names) == 1:
            return architecture, {names[0]: {"error": str(error)}}
    found: dict[str, Any] = {}
    for name in names:
        found |= compiled((architecture, [name], text))[1]
    return architecture, found


class Sweep:
    """A listing, and what is known of it."""

    def __init__(self, pool: Any) -> None:
        self.pool, self.text, self.calls = pool, text_digest(), listing()
        self.groups = groups(self.calls)
        self.fronts, self.facts = Results("fronts"), Results("facts")
        self.digests: dict[Group, Any] = {}

    def own_text(self, name: str) -> str:
        return self.calls[name].row.unsafe_cuda

    def front(self) -> None:
        keys = {group: (self.text, list_digest(names)) for group, names in self.groups.items()}
        missing = [(g, n, self.own_text(n[0])) for g, n in self.groups.items() if keys[g] not in self.fronts.found]
        for group, found in progress("front end", self.pool.imap_unordered(checked, missing, 8), len(missing)):
            self.fronts.add([(keys[group], found)])
        self.digests = {group: self.fronts.found[key] for group, key in keys.items()}

    def key(self, architecture: str, name: str) -> tuple[str, ...]:
        return str(self.digests[group_of(name)]), architecture, name

    def is_made(self, pair: tuple[str, str]) -> bool:
        return self.key(*pair) in self.facts.found

    def machine_code(self, wanted: Wanted, until: float = float("inf")) -> None:
        missing = sorted(pair for pair in wanted if not self.is_made(pair))
        alike: dict[tuple[str, ...], Names] = {}
        for architecture, name in missing:
            alike.setdefault((architecture, chosen(name).kernel, self.own_text(name)), []).append(name)
        jobs = [(a, part, text) for (a, _, text), names in alike.items() for part in batched(names, BATCH)]
        jobs.sort(key=lambda job: zlib.crc32(job[1][0].encode()))
        for architecture, found in progress("machine code", self.pool.imap_unordered(compiled, jobs), len(jobs)):
            self.facts.add((self.key(architecture, name), facts) for name, facts in found.items())
            if time.time() > until:
                return

    def known(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for architecture in ARCHITECTURES:
            for name in self.calls:
                if (facts := self.facts.found.get(self.key(architecture, name))) is not None:
                    yield architecture, name, facts

    def report(self) -> dict[str, Any]:
        """What was wanted and made, of which text and listing, and what is wrong with it."""
        bad = [f"{' '.join(g)}: {d['error']}" for g, d in self.digests.items() if isinstance(d, dict)]
        made: dict[str, dict[str, dict[str, int]]] = {}
        for architecture, name, facts in self.known():
            if "error" in facts:
                bad.append(f"{architecture}: {name}: {facts['error']}")
                continue
            found = Facts(**facts | {"widths": tuple(facts["widths"])})
            bad += [f"{architecture}: {fault}: {name}" for fault in faults(name, self.calls[name].dtypes, found)]
            some = made.setdefault(architecture, {}).setdefault(chosen(name).kernel, dict.fromkeys(COUNTED, 0))
            some["kernels"] += 1
            some["most registers"] = max(some["most registers"], found.registers)
            some["for fewer blocks an SM"] += found.blocks > 0
        return {
            "compiler": "NVRTC " + ".".join(map(str, nvrtc.getVersion())),
            "text": self.text,
            "listing": list_digest(self.calls),
            "kernels": len(self.calls),
            "wanted": {step: len(pairs) for step, pairs in wanted(self.calls).items()},
            "made": {step: sum(map(self.is_made, pairs)) for step, pairs in wanted(self.calls).items()},
            "machine code": made,
            "faults": sorted(bad),
        }


COUNTED = ("kernels", "most registers", "for fewer blocks an SM")


def progress(what: str, results: Iterable[Any], count: int) -> Iterator[Any]:
    start = shown = time.time()
    for done, result in enumerate(results, 1):
        yield result
        if time.time() > shown + 30 or done == count:
            shown = time.time()
            print(f"{what}: {done} of {count} programs, {shown - start:.0f} s", flush=True)


def main(minutes: float = 0) -> None:
    until = time.time() + 60 * minutes
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        sweep = Sweep(pool)
        sweep.front()
        for step in wanted(sweep.calls).values():
            sweep.machine_code(step)
        if minutes:
            sweep.machine_code([(a, name) for name in sweep.calls for a in ARCHITECTURES], until)
    report = sweep.report()
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(report["faults"]) or "all compile, nothing spills, loads are as wide as planned")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
