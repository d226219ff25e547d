"""dev.py: its verbs, its stamps, its server."""

import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from devtools import checks, machine, main, serve, steps


@pytest.mark.parametrize("verb", list(main.VERBS))
def test_each_verb_has_help(root, verb):
    """`dev.py VERB --help` says in a sentence what the verb does."""
    command = [sys.executable, root / "dev.py", verb, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (main.VERBS[verb].__doc__ or "").split()[0] in done.stdout


def test_unknown_verb_is_refused(root):
    """A verb that is none ends with exit code 2 and the list of verbs."""
    command = [sys.executable, root / "dev.py", "tset"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 2 == done.returncode
    assert "serve" in done.stderr


def test_stamp_follows_its_inputs(tmp_path, monkeypatch):
    """What was made is fresh until an input, a word or the output changes."""
    monkeypatch.setattr(steps, "CACHE", tmp_path)
    monkeypatch.setattr(steps, "ROOT", tmp_path)
    source, made = tmp_path / "in", tmp_path / "out"
    source.write_text("1")
    made.write_text("1")
    stamp = steps.Stamp("name", [source])
    assert not stamp.fresh(made)

    stamp.set()
    assert steps.Stamp("name", [source]).fresh(made)
    assert not steps.Stamp("name", [source], "word").fresh(made)
    made.unlink()
    assert not steps.Stamp("name", [source]).fresh(made)
    made.write_text("1")
    source.write_text("2")
    assert not steps.Stamp("name", [source]).fresh(made)


def test_stamp_goes_with_what_it_vouches_for(tmp_path):
    """When another Python makes .venv anew, nothing counts as installed in it any more."""
    home = tmp_path / ".venv"
    home.mkdir()
    stamp = steps.Stamp("requirements-site", [], home=home)
    stamp.set()
    assert stamp.fresh(home)

    shutil.rmtree(home)
    home.mkdir()
    assert not stamp.fresh(home)


def test_what_is_installed_is_stamped_where_it_lies(monkeypatch):
    """The stamps of packages lie in .venv and node_modules, not in the cache that outlives them."""
    seen = {}

    class Noted(steps.Stamp):
        def fresh(self, *_outputs):
            seen[self.path.name] = self.path
            return True

    monkeypatch.setattr(machine, "Stamp", Noted)
    machine.requirements("site")
    machine.npm()

    assert seen["venv"].is_relative_to(machine.VENV)
    assert seen["requirements-site"].is_relative_to(machine.VENV)
    assert seen["npm"].is_relative_to(machine.MODULES)


def test_checks_name_the_files(tmp_path, monkeypatch, capsys):
    """A file that ruff would format anew, or finds fault with, is named with the check."""
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:2])
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "crooked.py").write_text("import os\nx = [1,2]\n")

    found = checks.failures()

    assert found == [
        "style failed: ruff check: crooked.py",
        "style failed: ruff format: crooked.py",
    ]
    assert "1 file would be reformatted" in capsys.readouterr().out


def test_many_files_are_counted(tmp_path):
    """A long list of files is cut, with the number of those left out."""
    for number in range(8):
        (tmp_path / f"{number}.py").touch()
    output = "".join(f"{number}.py:1: error: wrong\n" * 2 for number in range(8))

    phrase = checks.phrase(checks.CHECKS[2], output, tmp_path)

    assert phrase == "types failed: mypy: 0.py, 1.py, 2.py, 3.py, 4.py and 3 more"


def test_last_line_names_what_failed(monkeypatch, capsys):
    """`dev.py test` goes through everything and ends in a line with all that failed."""
    monkeypatch.setattr(machine, "tests", lambda: None)
    monkeypatch.setattr(checks, "failures", lambda: ["style failed: ruff format: tests/a.py"])
    monkeypatch.setattr(main, "_sitebuild", lambda *_: 0)
    monkeypatch.setattr(main, "_pytest", lambda _: 1)

    assert 1 == main.main(["test"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("style failed: ruff format: tests/a.py; tests failed")


def test_interrupting_the_server_is_no_failure(monkeypatch, capsys):
    """Ctrl-C ends `serve` with exit code 0 and without the word "failed"."""

    def interrupted(_rebuild):
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "build", lambda _: 0)
    monkeypatch.setattr(serve, "start", lambda *_: (None, "http://127.0.0.1:8000/"))
    monkeypatch.setattr(serve, "watch", interrupted)

    assert 0 == main.main(["serve"])
    assert "failed" not in capsys.readouterr().out


def test_clean_removes_all_that_git_ignores(root, tmp_path, monkeypatch):
    """Every folder that .gitignore names is gone after `clean`; sources stay."""
    lines = (root / ".gitignore").read_text().splitlines()
    folders = [line.strip("/") for line in lines if line.endswith("/") and "*" not in line]
    for name in folders:
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "py/deep/__pycache__").mkdir(parents=True)
    (tmp_path / "py/deep/source.py").touch()
    monkeypatch.setattr(main, "ROOT", tmp_path)

    assert len(folders) >= 9
    assert 0 == main.clean([])
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left == {"py", "py/deep", "py/deep/source.py"}


def test_server_keeps_to_its_path_and_finds_a_free_port(tmp_path):
    """The site is served under its sub-path only, on the next port when the first is taken."""
    (tmp_path / "index.html").write_text("here")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server, address = serve.start(tmp_path, f"http://127.0.0.1:{port}/a/b/")
        try:
            assert f":{port}/" not in address
            assert address.endswith("/a/b/")
            assert b"here" == urllib.request.urlopen(address).read()
            assert b"here" == urllib.request.urlopen(address.removesuffix("a/b/")).read()
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(address.removesuffix("b/") + "index.html")
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    "address", ["nonsense", "http://localhost:99999/", "ftp://a.example/", "http://a:b/"]
)
def test_an_address_that_is_none_is_said_in_a_sentence(monkeypatch, address):
    """SITE_URL names an address, or one sentence says what it is."""
    monkeypatch.setenv("SITE_URL", address)
    with pytest.raises(steps.StepError, match="SITE_URL is "):
        serve.public_url()
