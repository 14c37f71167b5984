"""``--shard 2/8`` runs every eighth test from the second on: kernels compile on one core, so runs go side by side."""


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", help="which part of the tests to run, as part/parts")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.getoption("--shard").split("/"))
    dropped = [item for i, item in enumerate(items) if i % parts != part - 1]
    items[:] = [item for i, item in enumerate(items) if i % parts == part - 1]
    config.hook.pytest_deselected(items=dropped)
