"""The pages of the site are true: their code runs, and what they name exists. Sphinx checks links between them."""

import argparse
import importlib
import importlib.util
import json
import re
import sys
import tomllib
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from pages import DOCS, NOT_RUN, PAGES, ROOT, between, blocks, sections

import gpureduce_dask as gr
from gpureduce_dask.tools.bench import (
    grids_report,
    host,
    numbagg_peer,
    random_report,
    report,
    scan_trees_report,
    trees_report,
)

WITH_CODE = sorted(page for page, text in PAGES.items() if page != "README.md" and blocks(text))
TRACE = "docs/how/trace.md"
LIBRARIES = {"docs/guide/xarray.md": "xarray", "docs/guide/accelerate.md": "xarray", "docs/guide/groups.md": "xarray"}


def load_figures():
    spec = importlib.util.spec_from_file_location("figures", DOCS / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(page: str) -> dict[str, object]:
    """The names that a page's code leaves."""
    names: dict[str, object] = {"__name__": "page"}
    exec(compile("\n".join(blocks(PAGES[page])), page, "exec"), names)
    return names


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_of_a_page_runs(page, capsys):
    if page in LIBRARIES:
        pytest.importorskip(LIBRARIES[page])
    run(page)
    if page == "docs/guide/errors.md":
        assert capsys.readouterr().out.strip() in PAGES[page]
    if page == "docs/guide/accelerate.md":
        shown = " ".join(re.findall(r"^    # (.*)$", PAGES[page], re.M))
        assert shown == " ".join(capsys.readouterr().out.split())


def test_what_is_not_run_says_why():
    for page, text in PAGES.items():
        code = len(re.findall(r"^```python$", text, re.M))
        skipped = len(NOT_RUN.findall(text))
        assert code == len(blocks(text)) + skipped + (page == "README.md"), page


def test_operator_of_the_guide_is_right():
    special = pytest.importorskip("scipy.special")
    names = run("docs/guide/operators.md")
    x = names["x"] * 300  # past the overflow of a plain exponential
    got = gr.reduction(x, names["logsumexp"], axis=1).compute(scheduler="sync")
    assert got == pytest.approx(special.logsumexp(x.compute(scheduler="sync"), axis=1), rel=1e-12)


def test_the_plan_that_is_shown_has_today_s_lines():
    def lines(text: str) -> list[str]:
        return [re.sub(r"[\d.]+ ?\w*.*", "", line).rstrip() for line in text.splitlines()]

    shown = re.search(r"```text\n(plan of.*?)```", PAGES["docs/guide/plan.md"], re.S)[1]
    x = da.random.default_rng(0).normal(size=(2000, 3000), chunks=(500, 1000))
    assert lines(shown) == lines(str(gr.plan(x, "sum", axis=0)))


@pytest.mark.parametrize("page", ["docs/guide/choosing.md", "docs/reference/index.md"])
def test_every_public_function_is_listed(page):
    text = PAGES[page]
    listed = set(re.findall(r"`(\w+)[`(.]", text)) | set(re.findall(r"^   (\w+)$", text, re.M))
    assert set(gr.__all__) <= listed


def test_messages_to_search_for_are_in_the_code():
    package = "\n".join(path.read_text() for path in ROOT.glob("gpureduce_dask/**/*.py"))
    said = re.findall(r"^`([^`]+)`\n: ", PAGES["docs/guide/troubleshooting.md"], re.M)
    assert len(said) > 20
    for text in said:
        for part in re.split(r" ?… ?|; |'summ'|\d+$|float64", text):
            words = part.removeprefix("expected ").strip()
            assert words in package, text


def test_keys_of_the_configuration_are_all_named():
    from gpureduce_dask.configuration import KNOWN

    named = set(re.findall(r"^\| `gpureduce\.(\w+)`", PAGES["docs/reference/configuration.md"], re.M))
    assert named == set(KNOWN)


def names_of_tasks() -> set[str]:
    """What the code puts behind a call's name in the names of its tasks, or behind ``gr-``."""
    files = [path for path in (ROOT / "gpureduce_dask").rglob("*.py") if "tools" not in path.parts]
    text = "\n".join(path.read_text() for path in files)
    found = set(re.findall(r"\b(?:writer\.add|step_name|add)\(f?\"([a-z]+)", text))
    found |= set(re.findall(r"\{(?:key_prefix\([\w.]+\)|self\.prefix)\}-([a-z]+)-", text))
    found |= {name.rstrip("-") for name in re.findall(r"(?:key|again|token|PREFIX) ?= ?f?\"gr-([a-z-]+)", text)}
    return found | set(re.findall(r'names if [^"]+ else \["(\w+)"\]', text))


def test_names_of_tasks_are_all_shown():
    found = names_of_tasks()
    assert {"group", "placeholder", "gather", "codes", "average-weights", "fetch", "handle", "several"} <= found
    shown = " ".join(cells[0] for cells in sections(PAGES["docs/how/graphs.md"]) if cells[0].startswith("`gr-"))
    assert {name for name in found if not re.search(rf"-{name}\b", shown)} == set()


def test_commands_are_all_named():
    from gpureduce_dask.tools.cli import COMMANDS

    named = {cells[0].strip("`").split()[0] for cells in sections(PAGES["docs/reference/command_line.md"])[1:]}
    assert named == set(COMMANDS)


def commands() -> list[str]:
    """What pages call the command line with; not those that stand for others."""
    text = "\n".join(PAGES.values())
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`(python -m gpureduce_dask [^`]+)`", text)]
    lines = re.findall(r"^(?:.*&& )?(python -m gpureduce_dask [^#\n]*)", text, re.M)
    found = {command.strip().removeprefix("python -m gpureduce_dask ") for command in (*spans, *lines)}
    return sorted(command for command in found if "..." not in command and "COMMAND" not in command)


def test_commands_have_the_options_that_pages_give_them():
    from gpureduce_dask.tools.cli import COMMANDS

    assert len(commands()) > 20
    for command in commands():
        name, *arguments = command.replace("--seed S", "--seed 1").split()
        if name == "--version":
            continue
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(f"gpureduce_dask.tools.{COMMANDS[name][0]}").add_arguments(parser)
        if name == "bench" and not arguments:
            continue
        parser.parse_args(arguments)


# The trace from a call to the kernel.


def steps() -> list[tuple[str, list[str]]]:
    """Files and names, in order."""
    rows = [cells for cells in sections(PAGES[TRACE]) if len(cells) == 3 and cells[0] != "step"]
    return [(file.strip("`"), re.findall(r"`(\w+)`", names)) for _, file, names in rows]


def test_what_the_trace_names_exists():
    found = steps()
    assert len(found) > 30
    for file, names in found:
        text = (ROOT / file).read_text()
        for name in names:
            kind = r"(def|class)" if file.endswith(".py") else r"\b"
            assert re.search(rf"{kind} ?{name}\b", text), (file, name)
    for file in re.findall(
        r"`((?:gpureduce_dask|kernels|tests|docs|examples)/[\w/.]+\.\w+)`", "\n".join(PAGES.values())
    ):
        assert "_build" in file or (ROOT / file).exists(), file


def test_the_trace_is_what_happens():
    """The Python functions of the page are called in its order, for NumPy chunks."""
    x = da.random.default_rng(0).normal(size=(400, 300), chunks=(50, 100))
    gr.var(x, axis=0).compute(scheduler="sync")  # what is imported or looked up once
    called: list[tuple[str, str]] = []

    def note(frame, event, argument):
        if event == "call":
            called.append((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        gr.var(x, axis=0).compute(scheduler="sync")
    finally:
        sys.setprofile(None)
    order = {}
    for place, call in enumerate(called):
        order.setdefault(call, place)
    at = 0
    for file, names in steps():
        if "/device/" in file or file.startswith("kernels"):
            continue
        for name in names:
            first = order.get((str(ROOT / file), name))
            assert first is not None, f"{name} of {file} is not called"
            assert first >= at, f"{name} of {file} is called earlier than the page says"
            at = first


def test_the_kernel_of_the_trace_is_the_one_that_is_planned():
    pytest.importorskip("cupy", reason="plans are made for CuPy arrays")
    from gpureduce_dask.device.layout import collapse
    from gpureduce_dask.device.operator import cuda_operator, options
    from gpureduce_dask.device.specialise import Plan
    from gpureduce_dask.operators.table import get

    bound = get("var").bind("f4")
    op = cuda_operator(bound)
    layout = collapse((4096, 8192), ((8192 * 4, 4),), (4,), (0,), (0,), op.commutative, bound.indexed)
    [launch] = Plan(op, layout, (0,), 1, "ticket", options(bound)).launches()
    assert launch.kernel in PAGES[TRACE]
    assert (launch.blocks, launch.threads, launch.work.splits) == (512, 256, 4)
    assert bound.state.itemsize == 24


# Tables and pictures say what stored results hold.


def test_tables_are_those_of_the_stored_results():
    figures = load_figures()
    marked = {page for page, text in PAGES.items() if "<!-- figures:" in text}
    assert marked == set(figures.PAGES)
    for page in figures.PAGES:
        assert figures.page(PAGES[page]) == PAGES[page], page


def test_what_is_said_of_protocols_is_in_their_table():
    page = PAGES["docs/start/cluster.md"]
    times = {row[0]: float(row[3]) for row in sections(between("docs/start/cluster.md", "figures:protocols"))[1:]}
    groups = times.pop("mean of 365 groups, axis 0")
    assert f"take {groups} times as long by TCP" in " ".join(page.split())
    assert f"take {min(times.values())} to {max(times.values())} times as long" in " ".join(page.split())


def test_the_pictures_are_those_of_the_stored_results():
    figures = load_figures()
    assert len(figures.PICTURES) == 2
    for name, draw in figures.PICTURES.items():
        assert (figures.STATIC / name).read_text() == draw(), name


def stored(name: str):
    return json.loads((ROOT / ".ci" / name).read_text())


TREES, RANDOM = "../../.ci/h200/trees.png", "../../.ci/h200/random.png"
# page: the files of each of its tables, and what writes it
TABLES = [
    ("kernels", ["h200/kernels.json"], report.into_page),
    ("scans", ["h200/scan_kernels.json"], report.into_page),
    ("one_read", ["h200/one_read.json"], report.into_page),
    ("numpy", ["epyc/host.json"], host.into_page),
    ("numpy", ["epyc/numbagg.json"], numbagg_peer.into_page),
    ("trees", ["h200/trees.json"], partial(trees_report.into_page, picture=TREES)),
    ("trees", ["h200/one_read_trees.json"], partial(trees_report.into_page, picture=None)),
    ("trees", ["h200/scan_trees.json"], partial(scan_trees_report.into_page, picture=None)),
    ("random", ["h200/random.json"], partial(random_report.into_page, picture=RANDOM)),
    ("grids", ["h200/mechanisms.json"], grids_report.into_page),
    (
        "grids",
        ["epyc/grids.json", "h200/grids.json", "h200/grids_two.json"],
        grids_report.into_page,
    ),  # the last one first
]


@pytest.mark.parametrize(("page", "files", "write"), TABLES)
def test_benchmarks_are_those_of_the_stored_results(page, files, write):
    text = PAGES[f"docs/benchmarks/{page}.md"]
    assert all(file in text for file in files), "a page names its raw results"
    result = stored(files[0])
    for file in files[1:]:
        result["runs"] += stored(file)["runs"]
    assert write(text, result) == text


def test_the_overview_has_the_last_date_of_each_page():
    overview, last = PAGES["docs/benchmarks/index.md"], {}
    for page, files, _ in TABLES:
        for result in map(stored, files):
            dates = [each["date"] for each in (result, *result.get("runs", [])) if "date" in each]
            last[page] = max([last.get(page, ""), *dates])
    for page, date in last.items():
        [row] = [line for line in overview.splitlines() if line.startswith("|") and f"({page}.md)" in line]
        assert date in row or f"to {date[-2:]}" in row, (page, date)


def test_every_table_has_its_raw_results_beside_it():
    for page, text in PAGES.items():
        for file in re.findall(r"\{download\}`[^`<]*<([^>]+)>`", text):
            assert (ROOT / page).parent.joinpath(file).resolve().exists(), (page, file)


def test_the_extra_has_what_the_configuration_names():
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    names = {re.split(r"[><=\[]", need)[0].lower().replace("-", "_") for need in needs}
    configured = (DOCS / "conf.py").read_text()
    listed = re.search(r"extensions = \[(.*?)\]", configured, re.S)[1]
    for extension in re.findall(r'"(\w+)', listed):
        assert {"sphinx": "sphinx", "myst_parser": "myst_parser"}.get(extension, extension) in names | {"sphinx"}


def test_the_demo_is_shown():
    assert "land, share of area" in between("docs/start/laptop.md", "demo")


def test_answers_on_pages_agree_with_numpy():
    names = run("docs/guide/statistics.md")
    x, found = names["x"], names["found"]
    with dask.config.set(scheduler="sync"):
        np.testing.assert_allclose(found.mean.compute(), x.compute().mean(axis=0), rtol=0, atol=1e-12)
