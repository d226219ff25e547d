#!/usr/bin/env python3
"""The project's commands: `python3 dev.py VERB`, on a machine with Python 3.11 or newer.

Each verb first sets up what it needs, in this folder: a virtual environment (.venv), locked Python
and npm packages, Node where the machine has none. What is up to date is not done again.

Two things may go beyond this folder, and each is announced in a line of its own. Browser tests and
`bench` take a Chromium that the machine has, or download Playwright's into .cache; where that does
not start and dev.py runs as root on Debian or Ubuntu, they install `chromium` with apt-get. So is
`python3-venv`, if Python came without it. Downloads pass through the caches of pip and npm.
"""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036  (an older Python gets a sentence)
    sys.exit("dev.py needs Python 3.11 or newer; this is " + sys.version.split()[0] + ".")

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "py"))

from devtools import main  # noqa: E402  (the path above comes first)

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
