"""Programs as CUDA text: a struct with a function of the elements, for ``kernels/monoid/mapped.cuh``.

Text is put together from types and names of tables and from numbers of nodes; nothing that a user wrote gets into it.
Constants are none of it: they are read from constant memory, so that programs alike but for them share one kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..operators.cuda_types import element
from ..operators.monoid import DType
from .functions import CLIP
from .mapped import Map
from .program import ARRAY, CAST, CONSTANT, Constant, Node, Program

MOST_ARRAYS = 4  # that a reduction reads together
MOST_SCANNED = 2  # and a scan
NARROW = ("half", "bfloat16")


@dataclass(frozen=True)
class Struct:
    """A struct's name and text, and the bytes of the constants that it reads, by the name of their memory."""

    name: str
    text: str
    constants: tuple[tuple[str, bytes], ...]


@lru_cache(maxsize=256)
def struct(of: Map, invariant: tuple[int, ...] = ()) -> Struct:
    """The struct of a map. Its arrays are of dtypes that CUDA has, four of them at most; those in ``still`` have one
    element for a line."""
    body = "\n".join(_body(of, invariant))
    name = f"Map_{hashlib.sha256(body.encode()).hexdigest()[:16]}_{of.number}"
    data = b"".join(word for c in of.program.constants for word in _words(c))
    count = len(data) // 8
    text = f"struct {name} {{\n{body}\n}};".replace("CONSTANTS", f"{name}_constants")
    if not count:
        return Struct(name, text, ())
    # A test's machine has no constant memory: there the values are text.
    memory = (
        f"#ifdef GR_EMULATED\nstatic const u64 {name}_constants[{count}] = {{{name}_values}};\n"
        f'#else\nextern "C" {{ __constant__ u64 {name}_constants[{count}]; }}\n#endif\n'
    )
    return Struct(name, memory + text, ((f"{name}_constants", data),))


def _body(of: Map, invariant: tuple[int, ...]) -> Iterator[str]:
    program = of.program
    arrays = [f"Invariant<{_type(d)}>" if i in invariant else _type(d) for i, d in enumerate(program.dtypes)]
    given = _side_by_side(arrays[:2])
    if len(arrays) > 2:
        given = f"PairOfPairs<{given}, {_side_by_side(arrays[2:])}>"
    values, masks = program.outputs, program.outputs[-1:] if of.masked else ()
    values = values[: len(values) - of.masked]
    results = [_type(program.nodes[v].dtype) for v in values]
    result = results[0] if len(results) == 1 else f"Pair<{', '.join(results)}>"
    yield f"    typedef {given} In;"
    yield f"    static const bool masked = {str(of.masked).lower()};"
    yield f"    static GR_HD {result} of(In x) {{"
    yield from _lines(program, values, invariant)
    stored = ", ".join(f"cast<{r}>(v{v})" for r, v in zip(results, values, strict=True))
    yield f"        return {stored if len(values) == 1 else f'{{{stored}}}'};"
    yield "    }"
    yield f"    static GR_HD bool counts(In{' x' if of.masked else ''}) {{"
    yield from _lines(program, masks, invariant)
    yield f"        return {f'v{masks[0]}' if masks else 'true'};"
    yield "    }"


def _side_by_side(types: list[str]) -> str:
    return types[0] if len(types) == 1 else f"Pair<{', '.join(types)}>"


def _member(number: int, count: int) -> str:
    """Where array number so much of so many is in what a kernel reads."""
    if count <= 2:
        return f".{'ab'[number]}" if count == 2 else ""
    return f".{'ab'[number // 2]}" + _member(number % 2, 2 if number < 2 else count - 2)


def _lines(program: Program, outputs: tuple[int, ...], invariant: tuple[int, ...]) -> Iterator[str]:
    """The steps that these outputs need, a line each."""
    needed = set(outputs)
    for number in range(len(program.nodes) - 1, -1, -1):
        if number in needed and not program.nodes[number].is_leaf:
            needed.update(program.nodes[number].args)
    for number in sorted(needed):
        node = program.nodes[number]
        value = _value(node, program, invariant)
        yield f"        const fn::ComputeType<{_type(node.dtype)}>::type v{number} = {value};"


def _value(node: Node, program: Program, invariant: tuple[int, ...]) -> str:
    """The expression of one node."""
    kind = _type(node.dtype)
    if node.op == ARRAY:
        of = ".of" if node.args[0] in invariant else ""
        return f"fn::load(x{_member(node.args[0], len(program.dtypes))}{of})"
    if node.op == CONSTANT:
        start = sum(len(list(_words(c))) for c in program.constants[: node.args[0]])
        if node.dtype.kind == "c":
            real = "f32" if node.dtype.itemsize == 8 else "f64"
            return f"{{fn::Word<{real}>::of(CONSTANTS[{start}]), fn::Word<{real}>::of(CONSTANTS[{start + 1}])}}"
        return f"fn::Word<{kind}>::of(CONSTANTS[{start}])"
    values = [f"v{a}" for a in node.args]
    if node.op == CLIP:
        call = f"fn::minimum(fn::maximum({values[0]}, {values[1]}), {values[2]})"
    else:
        call = f"fn::{node.op}({', '.join(values)})"
    if node.op == CAST:
        return f"fn::cast<{kind}>({values[0]})"
    return f"fn::cast<{kind}>({call})" if kind in NARROW else call


def _words(constant: Constant) -> Iterator[bytes]:
    """A constant as words of eight bytes: a complex one as two."""
    data, parts = constant.data, 2 if constant.dtype.kind == "c" else 1
    size = len(data) // parts
    return (data[i : i + size].ljust(8, b"\0") for i in range(0, len(data), size))


def _type(dtype: DType) -> str:
    name = element(dtype)
    assert name is not None, f"no CUDA type for {dtype}"
    return name
