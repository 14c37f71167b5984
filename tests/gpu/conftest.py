"""``--shard 2/8`` runs every eighth test from the second on: kernels compile on one core, so runs go side by side. Those
that take much memory are all in the first, one after another."""


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", help="which part of the tests to run, as part/parts")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.getoption("--shard").split("/"))
    large = [item for item in items if item.get_closest_marker("large")]
    others = [item for item in items if not item.get_closest_marker("large")]
    first = 1 if large and parts > 1 else 0  # the part of the large ones has no others
    mine = large if first and part == 1 else [x for i, x in enumerate(others) if i % (parts - first) == part - first - 1]
    if not first:
        mine += large
    config.hook.pytest_deselected(items=[item for item in items if item not in mine])
    items[:] = mine
