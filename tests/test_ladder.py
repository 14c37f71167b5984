"""The ladder's command: what it prints, counts, draws and writes, from results that were stored."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from gpureduce_dask import history
from gpureduce_dask.tools.cli import main
from gpureduce_dask.tools.ladder import command, counters, measure, report
from gpureduce_dask.tools.ladder.findings import findings

ROOT = Path(__file__).parent.parent


def row(label, rate, **more):
    step = history.get(label)
    known = {"step": label, "family": step.family, "name": step.name, "n": 8, "bytes": 32, "wrong": []}
    return {**known, "seconds": 32 / rate, "rate": rate, "share": rate / 4e12, **more}


RESULT = {
    "gpu": "a GPU",
    "date": "2026-11-21",
    "cupy": "14.2.0",
    "n": 2**28,
    "dtype": "float32",
    "R": 4e12,
    "C": 3e12,
    "rows": [
        row("reduce-00", 1e9),
        row("reduce-01", 1e12),
        row("reduce-02", 1.5e12),
        row("reduce-12", 3e12, sweep=[[132, 16e-12], [1056, 8e-12]]),
        row("scan-01", 1e9),
        row("scan-01-padded", 2e9),
    ],
}
COUNTED = {**RESULT, "counters": {"n": 2**26, "rows": {"reduce-01": {"instructions a warp": 123.4}}}}


def test_each_step_is_compared_with_the_one_before_and_the_first():
    times = report.ratios(RESULT["rows"])
    assert times["reduce-00"] == (None, None)
    assert times["reduce-01"] == (None, 1.0)
    assert times["reduce-12"] == (2.0, 3.0)
    assert times["scan-01-padded"] == (2.0, 2.0)


def test_the_summary_shows_each_step_and_what_is_wrong():
    text = report.summary(RESULT)
    assert "reduce-12        many                  0.000    3,000   0.750    2.00    3.00" in text
    assert "right at every size: 6 of 6" in text and report.is_clean(RESULT)
    wrong = {**RESULT, "rows": [row("reduce-01", 1e12, wrong=["float32 33"])]}
    assert "WRONG: float32 33" in report.summary(wrong) and not report.is_clean(wrong)
    failed = {**RESULT, "rows": [{"step": "reduce-19", "family": "reduce", "name": "", "wrong": ["it does not fit"]}]}
    assert "it does not fit" in report.summary(failed) and not report.is_clean(failed)
    assert "who knows" in report.summary({**RESULT, "counters": {"note": "who knows"}})


def test_the_readme_keeps_what_stands_around_the_table():
    text = "before\n<!-- ladder -->\nold\n<!-- /ladder -->\nafter"
    made = report.into_readme(text, RESULT, "ladder.png")
    assert made.startswith("before\n<!-- ladder -->\na GPU, 2026-11-21") and made.endswith("<!-- /ladder -->\nafter")
    assert "| 2 | contiguous | 0.000 | 1,500 | 0.375 | 1.50 | 1.50 |" in made and "old" not in made
    assert "(ladder.png)" in made and "132 blocks 0.500, 1,056 blocks 1.000" in made
    assert "| 1, padded | warp |" in made and "instructions" not in made
    assert report.into_readme(made, RESULT, "ladder.png") == made
    assert "| 1 | neighbours | 0.000 | 1,000 | 0.250 |  | 1.00 | 123 |  |  |  |" in report.table(COUNTED, "reduce")


def test_findings_are_made_from_the_figures():
    assert findings(RESULT) == ""
    steps = [f"reduce-{number:02}" for number in range(1, 13)]
    rows = [row(label, 1e12 * (1 + i)) for i, label in enumerate(steps)]
    text = findings({**RESULT, "rows": rows})
    assert "2.00 times in all** (the texts: 4.4)" in text and "7 1.17, 8 1.14" in text and "conflicts where" not in text
    names = ("global loads, bytes/s", "DRAM reads, bytes/s", "bank conflicts of loads")
    counted = {label: dict.fromkeys(names, 2e9 + i * 1e9) for i, label in enumerate(steps)}
    text = findings({**RESULT, "rows": rows, "counters": {"n": 8, "rows": counted}})
    assert "load 2 / 3 / 4 GB/s" in text and "step 3 is 1.50 times as fast as step 2" in text
    assert "8,000.0 million bank conflicts where they have 7,000.0 and 9,000.0." in text


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    assert report.plot(RESULT, tmp_path / "ladder.png")
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


def test_report_writes_table_and_picture_from_stored_results(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    stored, readme = tmp_path / "ladder.json", tmp_path / "docs" / "README.md"
    readme.parent.mkdir()
    stored.write_text(json.dumps(RESULT))
    readme.write_text("<!-- ladder --><!-- /ladder --><!-- steps:transpose --><!-- /steps:transpose -->")
    assert main(["ladder", "report", "--json", str(stored), "--page", str(readme)]) == 0
    assert "](../ladder.png)" in readme.read_text() and "[4, swizzled](transpose_04" in readme.read_text()
    assert (tmp_path / "ladder.png").is_file()
    assert "scan-01-padded" in capsys.readouterr().out


def test_list_and_explain_need_no_gpu(capsys):
    assert main(["ladder", "transpose", "--list"]) == 0
    assert [line[:12] for line in capsys.readouterr().out.splitlines()] == [f"transpose-0{i}" for i in range(1, 5)]
    assert main(["ladder", "--explain", "transpose-04"]) == 0
    assert "x ^ y" in capsys.readouterr().out
    assert main(["ladder", "--explain", "transpose-05"]) == 1
    assert "transpose-04" in capsys.readouterr().err


def test_numbers_of_elements():
    assert command.count("2^28") == command.count("2**28") == command.count("268435456") == 2**28
    for bad in ("", "0", "-1", "2^", "1e6", "2^99", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a number"):
            command.count(bad)


def line(number, kernel, metric, value):
    return f'"{number}","7","python","host","{kernel}","1","7","(1)","(1)","0","9.0","x","{metric}","u","{value}"'


def test_counters_are_those_of_a_step_s_longest_launch():
    names = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size"'
    head = f'{names},"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
    warp, seconds = counters.METRICS["instructions a warp"], counters.METRICS["seconds"]
    lines = ["==PROF== Connected to process 7", head]
    plain, padded = "void step_scan_01<float, 0>(Step)", "void step_scan_01<float, (bool)1>(Step)"
    for number, (kernel, time, count) in enumerate([(plain, "10", "5"), (plain, "1,000", "7.5"), (padded, "20", "9")]):
        lines += [line(number, kernel, seconds, time), line(number, kernel, warp, count)]
    lines.append(line(9, "scan_line<Sum>(Task)", warp, "n/a"))
    steps = [history.get(label) for label in ("scan-01", "scan-01-padded", "scan-08", "reduce-08")]
    found = counters.parse("\n".join(lines), steps)
    assert found == {
        "scan-01": {"seconds": 1000.0, "instructions a warp": 7.5},
        "scan-01-padded": {"seconds": 20.0, "instructions a warp": 9.0},
        "scan-08": {},
    }


@pytest.mark.parametrize(
    ("path", "text", "note"),
    [
        (None, "", "not on the PATH"),
        ("ncu", "==ERROR== ERR_NVGPUCTRPERM - no permission", "may not read the GPU's counters"),
        ("ncu", "==ERROR== LibraryNotLoaded", "ended with 1 and said: ==ERROR== LibraryNotLoaded"),
    ],
)
def test_counters_that_cannot_be_read_are_said_to_be(monkeypatch, path, text, note):
    monkeypatch.setattr(counters.shutil, "which", lambda name: path)
    done = type("Done", (), {"stdout": text, "stderr": "", "returncode": 1})
    monkeypatch.setattr(counters.subprocess, "run", lambda *args, **options: done)
    assert note in counters.count(history.STEPS, 2**20)["note"]


def test_answers_are_exact_in_every_dtype():
    for dtype in measure.DTYPES:
        x = measure.numbers(2**20 + 1, dtype, 3)
        total = measure.exact("reduce", x)
        assert total.dtype == dtype and total[0] == measure.exact("scan", x)[-1]
        if dtype != "int32":
            assert np.abs(measure.exact("scan", x)).max() < 2**24 and total[0] == int(x.astype("i8").sum())


def test_the_folder_s_readme_is_generated_from_the_stored_results():
    text = (ROOT / "kernels/history/README.md").read_text()
    stored = json.loads((ROOT / ".ci/h200/ladder.json").read_text())
    assert report.into_readme(text, stored, "../../.ci/h200/ladder.png") == text
    assert report.is_clean(stored) and "H200" in stored["gpu"]
    shares = {row["step"]: row["share"] for row in stored["rows"]}
    assert all(shares[label] >= 0.93 for label in ("reduce-18", "reduce-20", "scan-08", "transpose-03", "transpose-04"))
