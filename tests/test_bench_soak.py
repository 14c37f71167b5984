"""``bench soak`` with faults: a short one is clean, and each of its checks can fail."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from gpureduce_dask.tools import cli
from gpureduce_dask.tools.bench import soak_calls, soak_faults, soak_rounds

distributed = pytest.importorskip("distributed")

SOAK = ["bench", "soak", "--only", "faults", "--workers", "2", "--minutes", "0", "--seed", "5"]
kept = []  # what a call forgets to let go


@pytest.mark.parametrize("number", range(soak_calls.GRIDS))
def test_every_call_has_numpy_s_answer(number):
    rng = np.random.default_rng(number)
    x, whole = soak_calls.grid(number, False), soak_calls.values(number)
    np.testing.assert_array_equal(x.compute(scheduler="sync"), whole)
    for kind in soak_calls.CALLS:
        call = soak_calls.draw(rng, x, whole, kind)
        for result, wanted in zip(call.results, call.wanted, strict=True):
            found = result.compute(scheduler="sync")
            assert soak_calls.is_right(found, wanted), call.about
            assert np.all(np.isnan(wanted)) or not soak_calls.is_right(found + 1, wanted), call.about


@pytest.mark.slow
def test_a_short_soak_with_faults(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(soak_faults, "PAUSE", (0.1, 0.6))
    monkeypatch.setattr(soak_faults, "DECK", tuple(soak_faults.FAULTS))
    assert cli.main([*SOAK, "--json", str(tmp_path / "soak.json")]) == 0, capsys.readouterr().out
    result = json.loads((tmp_path / "soak_faults.json").read_text())
    assert result["seed"] == 5 and set(result["faults"]) == set(soak_faults.FAULTS)
    assert sum(result["calls"].values()) > 0 and len(result["samples"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("seed 5\n") and "0 wrong, 0 failed, 0 hangs, 0 leaks" in out


def wrong(rng, x, whole):
    return soak_calls.Call("wrong", [x.sum()], [whole.sum() + 1])


def leak(rng, x, whole):
    kept.append(distributed.get_client().submit(len, "ab", key="kept"))
    return soak_calls.Call("leak", [x.sum()], [whole.sum()])


def late(chunk):
    time.sleep(5)
    return chunk


def hang(rng, x, whole):
    return soak_calls.Call("hang", [x.map_blocks(late, dtype=x.dtype)], [whole])


def fail(rng, x, whole):
    raise distributed.CancelledError


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "what"), [(wrong, "wrong"), (leak, "leaks"), (hang, "hangs"), (fail, "failed")])
def test_what_is_planted_is_found(monkeypatch, tmp_path, capsys, plant, what):
    """A cancelled call too, where nothing of it was cancelled."""
    monkeypatch.setattr(soak_calls, "CALLS", {what: plant})
    monkeypatch.setattr(soak_faults, "DECK", ("delete array",))
    monkeypatch.setattr(soak_faults, "PATIENCE", 3.0)
    monkeypatch.setattr(soak_rounds, "CALM", 1.0)
    try:
        assert cli.main([*SOAK, "--json", str(tmp_path / "soak.json")]) == 1
    finally:
        kept.clear()
    result = json.loads((tmp_path / "soak_faults.json").read_text())
    found = {each for each in soak_rounds.BAD if result[each]}
    assert what in found and found <= {what, "leaks"}
    first = result[what][0]
    if what == "leaks":
        assert first["key"] == "kept" and first["state"] == "memory" and first["wanted by"]
    else:
        assert first["kind"] == what and first["grid"] in range(soak_calls.GRIDS)
    if what == "hangs":
        assert first["scheduler"]["tasks"] and first["scheduler"]["workers"] and first["workers"]
    assert f"seed 5: {what}" in capsys.readouterr().out


def test_memory_and_workers_that_are_short_are_told():
    def result(growth, **bad):
        samples = [{"seconds": 60.0 * i, "client": 10**8 + growth * i, "workers": [10**8]} for i in range(20)]
        counts = {"calls": {"scan": 3}, "faults": {"kill": 2}, "errors": {}}
        return {
            "seed": 1,
            "workers": 1,
            "samples": samples,
            "orphans": [],
            **{what: [] for what in soak_rounds.BAD},
            **counts,
            **bad,
        }

    assert soak_rounds.is_clean(result(0)) and "GROWS" not in soak_rounds.summary(result(0))
    assert not soak_rounds.is_clean(result(10**7)) and "GROWS" in soak_rounds.summary(result(10**7))
    for what in soak_rounds.BAD:
        short = result(0, **{what: [{"about": "it"}]})
        assert not soak_rounds.is_clean(short) and f'{what}: {{"about": "it"}}' in soak_rounds.summary(short)
