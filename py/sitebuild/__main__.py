"""`python -m sitebuild` builds the site; `python -m sitebuild zip FILE` also zips it."""

from __future__ import annotations

import sys
from pathlib import Path

from devtools.steps import StepError, alone, step
from sitebuild import archive, site


def main(arguments: list[str]) -> int:
    try:
        with alone():
            made = site.build()
        if not made:
            print("the site is up to date")
        if arguments[:1] == ["zip"]:
            with step(f"write {arguments[1]}"):
                archive.folder(Path(arguments[1]), site.SITE, "training-memory/")
    except StepError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
