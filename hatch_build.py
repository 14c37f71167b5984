"""A build hook: compiles the host loops where there is a C compiler. Without them NumPy does the work, more slowly.

The loops are a plain library that the package loads with ctypes. It has no part of Python's C interface, so that a
wheel with it serves every Python 3 of one platform and is tagged ``py3-none-<platform>``; a wheel without it is
``py3-none-any``. On Linux the platform is ``manylinux_2_<minor>``, the oldest glibc that the wheel runs on, where the
library needs nothing but glibc. objdump, which comes with most compilers, lists what it needs; else the platform is
``linux``, and the wheel is for machines like this one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).parent / "kernels" / "host"
OPTIONS = ("-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-shared")
# Where a compiler would take more for granted, as those of some distributions do. Loops have variants for more anyway.
EVERY_PROCESSOR = ("-march=x86-64",) if sysconfig.get_platform().endswith("-x86_64") else ()
LIBRARIES = ("-lm",)  # fmax; not every Python has loaded the library with it
OF_GLIBC = {"libc.so.6", "libm.so.6"}  # which manylinux wheels may need
OLDEST_GLIBC = 17  # that of manylinux2014: what needs less is still given this one, the oldest that installers name


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        library = compiled()
        if library is None:
            return
        build_data["pure_python"] = False
        platform = manylinux(library) or sysconfig.get_platform()
        build_data["tag"] = f"py3-none-{platform.replace('-', '_').replace('.', '_')}"
        if version != "editable":
            build_data["force_include"][str(library)] = f"gpureduce_dask/_kernels/host/{library.name}"


def compiled() -> Path | None:
    """The library, named after its texts and the platform, so that none is taken for another; None if none was made."""
    digest = hashlib.sha256(b"".join(text.read_bytes() for text in sorted(FOLDER.glob("*.[ch]")))).hexdigest()[:12]
    library = FOLDER / f"loops-{digest}-{sysconfig.get_platform()}.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    # Those that take longest first, as many at once as there are processors.
    texts = sorted(FOLDER.glob("*.c"), key=lambda text: (-text.stat().st_size, text.name))
    new = library.with_suffix(f".{os.getpid()}")  # moved into place whole: builds may run side by side

    def run(*arguments: str) -> None:
        subprocess.run([*compiler, *OPTIONS, *EVERY_PROCESSOR, *arguments], check=True, capture_output=True, text=True)

    try:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = [str(Path(folder, f"{text.stem}.o")) for text in texts]
            list(pool.map(lambda text, part: run("-c", "-o", part, str(text)), texts, parts))
            run("-o", str(new), *parts, *LIBRARIES)
        new.replace(library)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = "\n".join((getattr(error, "stderr", None) or str(error)).splitlines()[:10])
        print(f"gpureduce-dask: no compiled host loops, NumPy stands in for them: {reason}", file=sys.stderr)
        return None
    return library


def manylinux(library: Path) -> str | None:
    """The manylinux platform that a library qualifies for, as PEP 600 has it; None if for none that is known."""
    try:
        listing = subprocess.run(
            ["objdump", "-p", str(library)],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    minor = glibc(listing)
    system, _, machine = sysconfig.get_platform().partition("-")
    return f"manylinux_2_{minor}_{machine}" if system == "linux" and minor else None


def glibc(listing: str) -> int | None:
    """The minor version of the oldest glibc 2 that a library runs with, by what objdump -p lists.

    None if the library needs other libraries, or something of glibc that has no such version, as what is private to it.
    """
    needed = set(re.findall(r"^ *NEEDED +(\S+)$", listing, re.MULTILINE))
    _, _, references = listing.partition("Version References:")
    names = re.findall(r"^ +0x\w+ +0x\w+ +\d+ +(\S+)$", references, re.MULTILINE)
    versions = [re.fullmatch(r"GLIBC_2\.(\d+)(\.\d+)?", name) for name in names]
    if not names or not needed <= OF_GLIBC or not all(versions):
        return None
    return max(OLDEST_GLIBC, *(int(version[1]) for version in versions if version))
