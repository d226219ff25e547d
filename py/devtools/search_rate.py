"""How long an evaluation of a layout search takes; runs in CPython and in the Python that the site ships."""

import sys
import time

import trainmem

lines = sys.modules["trainmem.lines"]
QUERY = "model=llama-3.1-8b"
GPUS = [1 << power for power in range(11)]
CHECKPOINTING = ("none", "full")


def microseconds(times: int = 7) -> float:
    """Microseconds of processor time an evaluation, in the best of some searches that begin with nothing remembered."""
    run, problems = trainmem.parse(QUERY)
    if problems:
        raise ValueError(problems[0])
    found = []
    for _ in range(times):
        lines.forget()
        start = time.process_time()
        layouts = list(
            trainmem.search(run, GPUS, limits=trainmem.Limits(checkpointing=CHECKPOINTING))
        )
        spent = time.process_time() - start
        found.append(1e6 * spent / sum(layout.evaluations for layout in layouts))
    return min(found)


if __name__ == "__main__":
    print(microseconds())
