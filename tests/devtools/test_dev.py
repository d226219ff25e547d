"""dev.py: its verbs, its stamps, its server."""

import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from devtools import main, serve, steps


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
