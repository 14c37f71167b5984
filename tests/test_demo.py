"""The demo: its answers, its geometry, and what it says where something is missing."""

import re
import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
from pages import between

from gpureduce_dask.tools import cli, demo, earth

REFUSE = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {name!r} else found(name, *rest)
from gpureduce_dask.tools.cli import main
sys.exit(main({arguments!r}))
"""


def share(text: str, label: str) -> float:
    return float(re.search(rf"{label}\s+([\d.]+)%", text)[1])


def test_demo_answers(demo_run):
    text, errors, chart = demo_run
    assert not errors
    assert share(text, "land, share of cells") == 33.18
    assert share(text, "land, share of area") == 28.93
    assert abs(share(text, "land, share of area") - share(text, "published")) < 0.5
    # Two halves of equal area: each pair of hemispheres has the whole Earth's mean.
    for pair in (("northern", "southern"), ("eastern", "western")):
        assert abs(sum(share(text, f"{name} hemisphere") for name in pair) / 2 - 28.93) < 0.01
    assert 20 < float(re.search(r"north of ([\d.]+) degrees north", text)[1]) < 30
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_the_site_shows_the_demo_s_output(demo_run):
    """Every line but for the figures of time."""

    def timeless(text: str) -> list[str]:
        return [
            re.sub(r"[\d.]+ (s|GB/s)\b", r"_ \1", line).rstrip() for line in text.splitlines() if "chart" not in line
        ]

    shown = [line for line in timeless(between("docs/start/laptop.md", "demo")) if "```" not in line]
    assert [re.sub(" +", " ", line) for line in shown] == [re.sub(" +", " ", line) for line in timeless(demo_run[0])]


def test_demo_shows_progress_and_speed(demo_run):
    text, _, _ = demo_run
    assert [line.split()[0] for line in text.splitlines() if "100%" in line] == ["reading", "reducing", "again"]
    assert re.search(r"0\.93 GB in [\d.]+ s \([\d.]+ GB/s\)", text)


@pytest.mark.parametrize(("name", "missing"), [("global_land_mask", "global-land-mask"), ("matplotlib", "matplotlib")])
def test_a_missing_extra_is_one_line(name, missing):
    code = REFUSE.format(name=name, arguments=["demo", "--cpu"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == f'demo: {missing} is not installed. Run: pip install "gpureduce-dask[demo]"\n'
    assert not done.stdout


def test_band_areas_make_the_ellipsoid():
    areas = earth.band_areas(np.linspace(90, -90, 181))
    # Surface of the WGS 84 ellipsoid, from its authalic radius of 6,371,007.1809 m.
    assert areas.sum() == pytest.approx(4 * np.pi * 6_371_007.1809**2, rel=1e-10)
    np.testing.assert_allclose(areas, areas[::-1], rtol=1e-9)
    assert (np.diff(areas[:90]) > 0).all()


def globe(land: np.ndarray) -> demo.Shares:
    return demo.land_shares(da.from_array(land, chunks=(7, 11)), lambda work: list(da.compute(*work, scheduler="sync")))


def test_land_shares_of_known_globes():
    shape = (36, 72)
    everything = globe(np.ones(shape, bool))
    assert everything.cells == 36 * 72
    assert everything.area == pytest.approx(1)
    assert everything.halving_latitude == pytest.approx(0, abs=1e-9)

    north_west = np.zeros(shape, bool)
    north_west[:18, :36] = True
    quarter = globe(north_west)
    assert quarter.area == pytest.approx(0.25)
    assert quarter.hemispheres == pytest.approx({"northern": 0.5, "southern": 0, "eastern": 0, "western": 0.5})
    assert quarter.halving_latitude == pytest.approx(30, abs=0.2)  # half of a hemisphere, but for the flattening


def test_read_mask_streams_from_the_north():
    blocks = earth.read_mask(rows=60)
    first = next(blocks)
    assert first.shape == (60, 43200)
    assert first.dtype == bool
    assert first.all()  # the Arctic Ocean
    blocks.close()


def test_a_cluster_of_the_demo_listens_on_loopback_alone():
    psutil = pytest.importorskip("psutil")
    from distributed import Client, LocalCluster

    with LocalCluster(processes=False, **demo.LOOPBACK) as cluster, Client(cluster):
        listening = [c.laddr.ip for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert set(listening) <= {"127.0.0.1"}


def test_array_module_stays_on_numpy_when_asked():
    assert demo.array_module(cpu=True)[0] is np


def test_cli_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)


def test_cli_refuses_an_unknown_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["dmeo"])
    assert stop.value.code == 2
    assert "invalid choice: 'dmeo'" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert f"gpureduce_dask {name}" in capsys.readouterr().out


@pytest.mark.gpu
def test_demo_on_a_gpu(tmp_path):
    command = [sys.executable, "-m", "gpureduce_dask", "demo", "--output", str(tmp_path / "land.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "CuPy chunks on one" in done.stdout
    assert share(done.stdout, "land, share of cells") == 33.18
    assert share(done.stdout, "land, share of area") == 28.93
