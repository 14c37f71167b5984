"""``python -m gpureduce_dask``."""

import sys

from .cli import main

sys.exit(main())
