"""Opens the built site in a headless browser, where there is one: ``python tests/open_site.py SITE [PICTURES]``.

The start page, the reference of ``sum`` and the search have to show what they are for, which takes the theme's scripts.
With a second folder it takes pictures of them, as wide as on a desktop and on a phone. Where there is no browser
nothing of this is checked, and its output says so.
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
WIDTHS = {"desktop": 1200, "phone": 390}
HEIGHT = 1200
NARROWEST = 500  # window that such a browser has: a page that is to be narrower stands in a frame
FRAME = """<!doctype html>
<style>body {{ margin: 0; background: gray }} iframe {{ border: 0 }}</style>
<iframe src="/{page}" width="{width}" height="{height}"></iframe>
"""


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        """A file of the site or, of ``/framed/WIDTH/PAGE``, that page in a frame of this width."""
        if not self.path.startswith("/framed/"):
            return super().do_GET()
        width, _, page = self.path.removeprefix("/framed/").partition("/")
        body = FRAME.format(page=page, width=width, height=HEIGHT).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """No line for each file."""


def main(site: Path, pictures: Path | None = None) -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("=" * 80)
        print("NOT CHECKED: the site was built and NOT OPENED, for there is no browser here")
        print(f"(none of {', '.join(BROWSERS)}). Whether its pages work is not known.")
        print("=" * 80)
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    common = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000"]
    failed = 0
    for number, (page, text) in enumerate(PAGES.items()):
        address = f"{root}/{page}"
        shown = subprocess.run([*common, "--dump-dom", address], capture_output=True, text=True, timeout=120).stdout
        failed += text not in shown
        print(f"{page}: {'shows' if text in shown else 'DOES NOT SHOW'} {text!r}")
        for name, width in WIDTHS.items() if pictures else ():
            picture = [
                f"--screenshot={pictures}/{number}-{name}.png",
                f"--window-size={max(width, NARROWEST)},{HEIGHT}",
                "--hide-scrollbars",
            ]
            shot = address if width >= NARROWEST else f"{root}/framed/{width}/{page}"
            subprocess.run([*common, *picture, shot], capture_output=True, check=True, timeout=120)
    server.shutdown()
    return failed


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
