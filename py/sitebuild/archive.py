"""Zips whose bytes depend on what is in them alone: names sorted, one date, fixed permissions."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EARLIEST = (1980, 1, 1, 0, 0, 0)  # the first date that a zip can hold


def write(target: Path, members: Mapping[str, Path]) -> None:
    """Write the files under the given names."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # as on Unix, also when made elsewhere
            archive.writestr(entry, members[name].read_bytes())


def folder(target: Path, root: Path, top: str = "") -> None:
    """Write all files below a folder, under `top` if given."""
    found = (p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    write(target, {f"{top}{path.relative_to(root).as_posix()}": path for path in found})
