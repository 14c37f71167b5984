"""``--shard 2/8`` runs every eighth test from the second on: kernels compile on one core, so runs go side by side.

Those that take much memory are all in the first shard, one after another, and no others are.
"""


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", help="which part of the tests to run, as part/parts")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.getoption("--shard").split("/"))
    if parts == 1:
        return
    large = [item for item in items if item.get_closest_marker("large")]
    others = [item for item in items if item not in large]
    mine = large if part == 1 else others[part - 2 :: parts - 1]
    config.hook.pytest_deselected(items=[item for item in items if item not in mine])
    items[:] = mine
