"""Opens the built site in a headless browser, where there is one: ``python tests/open_site.py SITE [PICTURES]``.

The start page, the reference of ``sum`` and the search have to show what they are for, which takes the theme's scripts.
With a second folder it takes pictures of them, as wide as a desk and as a telephone.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PAGES = {  # and what has to stand there
    "index.html": "One task reduces many chunks",
    "reference/generated/gpureduce_dask.sum.html": "Sum of the elements",
    "search.html?q=groupby": "matching the search query",
}
WIDTHS = {"desk": 1200, "telephone": 500}  # the narrowest window that such a browser has


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """No line for each file."""


def main(site: Path, pictures: Path | None = None) -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"no browser ({', '.join(BROWSERS)}): the site was built and not opened")
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    common = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000"]
    failed = 0
    for number, (page, text) in enumerate(PAGES.items()):
        address = f"http://127.0.0.1:{server.server_port}/{page}"
        shown = subprocess.run([*common, "--dump-dom", address], capture_output=True, text=True, timeout=120).stdout
        failed += text not in shown
        print(f"{page}: {'shows' if text in shown else 'DOES NOT SHOW'} {text!r}")
        for name, width in WIDTHS.items() if pictures else ():
            picture = [
                f"--screenshot={pictures}/{number}-{name}.png",
                f"--window-size={width},1200",
                "--hide-scrollbars",
            ]
            subprocess.run([*common, *picture, address], capture_output=True, check=True, timeout=120)
    server.shutdown()
    return failed


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
