"""Reads the files under data/: a small part of TOML, read line by line.

The data is written as plain `key = value` lines under `["id"]` headings: strings in double quotes
without escapes, whole numbers, decimals, true and false, and lists of these on one line. Any TOML
reader can read the files, and a test checks that the standard one sees the same in them; this
reader exists because it takes a hundredth of the time, on each keystroke of a page and on each
call of the command line.
"""

from os import listdir

Value = str | int | float | bool | list["Value"]
Table = dict[str, Value]

_ROOT = __file__.replace("\\", "/").rpartition("/")[0] + "/data/"


def load(path: str) -> str:
    """The text of one file under data/, such as "gpus/hopper.toml"."""
    with open(_ROOT + path, encoding="utf-8") as file:  # noqa: PTH123  pathlib costs 3 ms to import
        return file.read()


def files(folder: str) -> list[str]:
    """The TOML files of one folder under data/, in the order of the alphabet."""
    names = listdir(_ROOT + folder)  # noqa: PTH208  as above
    stems = sorted(name[:-5] for name in names if name.endswith(".toml"))
    return [f"{folder}/{stem}.toml" for stem in stems]


def _items(text: str) -> list[Value]:
    """The values of a list on one line; a comma inside a string does not part two values."""
    parts: list[str] = [""]
    quoted = False
    for letter in text:
        quoted ^= letter == '"'
        if letter == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [value(part) for part in parts if part.strip()]


def value(text: str) -> Value:
    """One value as it stands after the equals sign."""
    text = text.strip()
    if text.startswith('"'):
        return text[1:-1]
    if text.startswith("["):
        return _items(text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text.replace("_", ""))
    except ValueError:
        return text if text.count("-") == 2 else float(text)  # a date stays text


def lines(text: str) -> Table:
    """The `key = value` lines of a text, up to the next heading."""
    table: Table = {}
    for line in text.splitlines():
        if line.startswith("["):
            break
        key, equals, rest = line.partition(" = ")
        if equals and not line.startswith("#"):
            table[key.strip('"')] = value(rest)
    return table
