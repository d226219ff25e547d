"""Lock files: versions and hashes, and no registry's address."""

import json
import re

import pytest


@pytest.mark.parametrize("name", ["site", "test", "node", "zensical"])
def test_python_lock_has_hashes_and_no_address(root, name):
    """Each Python requirement has a version and a hash, and none says where it comes from."""
    text = (root / f"requirements/{name}.txt").read_text()
    packages = re.findall(r"^([a-z0-9-]+)==\S+.*\\$", text, re.MULTILINE)
    blocks = re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]

    assert packages
    assert len(packages) == len(blocks)
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text


def test_npm_lock_has_hashes_and_no_address(root):
    """Each npm package has a version and a hash, and none says where it comes from."""
    packages = json.loads((root / "package-lock.json").read_text())["packages"]
    installed = {name: entry for name, entry in packages.items() if name}

    assert installed
    assert all(entry["integrity"].startswith("sha512-") for entry in installed.values())
    assert not any("resolved" in entry for entry in installed.values())


def test_actions_are_pinned(root):
    """Each action in a workflow is named by a full commit hash, with its version beside it."""
    uses = [
        line.strip()
        for path in (root / ".github/workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line and "uses: ./" not in line
    ]

    assert uses
    assert all(re.search(r"@[0-9a-f]{40}  ?# v\d+\.\d+\.\d+$", line) for line in uses)
