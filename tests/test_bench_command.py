"""The command line of the benchmarks: each has its own options and says what they are; a run says that it began."""

from __future__ import annotations

import json
import re

import pytest

from gpureduce_dask.tools import cli
from gpureduce_dask.tools.bench import command, random_calls

# Options that documents and scripts name.
OPTIONS = {
    "kernels": "scans one-read json plot page gib only no-peers cupynumeric",
    "trees": "scans one-read grids mechanisms json plot page gpus workers mib chunks repeats no-stock protocol budget",
    "host": "json numbagg page mib repeats",
    "soak": "json only gpus workers mib minutes seed",
    "workflows": "json page only scheduler data small persisted gpu latency",
    "random": "scans reductions groups batch json plot page only no-peers mib seed count seconds numpy compilers",
    "tune": "seed reductions count mib seconds compilers forget json",
    "report": "scans one-read grids mechanisms json plot page",
}


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", *arguments])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_names_every_benchmark(capsys):
    text = printed(capsys, "--help")
    assert OPTIONS.keys() == command.BENCHES.keys()
    assert all(re.search(rf"^    {name}\b", text, re.MULTILINE) for name in OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_each_benchmark_has_its_own_options_with_defaults(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # a line an option
    text = re.sub(r"\n {8,}", "  ", printed(capsys, name, "--help"))
    entries = dict(re.findall(r"^  --([a-z-]+)(?: .*?)?  +(.*)$", text, re.MULTILINE))
    assert entries.keys() == set(OPTIONS[name].split())
    for option, help in entries.items():
        takes_a_value = re.search(rf"--{option} [A-Z{{]", text)
        assert "(default: " in help or not takes_a_value, option


def test_the_option_of_another_benchmark_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "host", "--gpus", "1"])
    assert ended.value.code == 2 and "--gpus" in capsys.readouterr().err


def test_a_run_says_that_it_began_and_each_case_that_ended(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(random_calls, "CALLS", {"sum": random_calls.CALLS["sum"]})
    path = tmp_path / "calls.json"
    asked = ["bench", "random", "--numpy", "--seed", "1", "--count", "2", "--mib", "0.01", "--json", str(path)]
    assert cli.main(asked) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"bench random: started; results go to {path} as they come"
    assert [line.partition(":")[0] for line in lines[1:]] == ["1 of 2", "2 of 2"]


@pytest.mark.parametrize(
    ("option", "file"),
    [
        ([], "kernels.json"),
        (["--scans"], "scan_kernels.json"),
        (["--one-read"], "one_read_kernels.json"),
        (["--grids"], "grids.json"),
        (["--mechanisms"], "mechanisms.json"),
    ],
)
def test_a_report_of_no_file_says_which(option, file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bench", "report", *option]) == 1
    assert f"no file {file}; expected results of a benchmark" in capsys.readouterr().err
    (tmp_path / file).write_text(json.dumps({"what": "reductions", "runs": []}))
    assert cli.main(["bench", "report", *option]) == 0


def test_a_report_of_something_else_says_what_it_takes(tmp_path, capsys):
    for name, held, said in (
        ("copied.json", {"rows": {}}, "copied.json alone; expected our times in one file"),
        ("cupynumeric.json", {"rows": {}}, "cupynumeric.json alone; expected our times in one file"),
        ("ladder.json", {"rows": [], "gpu": "any"}, "ladder.json, which holds none; expected results of a benchmark"),
    ):
        (tmp_path / name).write_text(json.dumps(held))
        assert cli.main(["bench", "report", "--json", str(tmp_path / name)]) == 1
        assert said in capsys.readouterr().err
