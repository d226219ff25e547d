"""trainmem: what training a neural network costs in GPU memory, computed the way PyTorch spends it.

>>> run, problems = parse("model=llama-2-13b&gpus=8&zero=3&micro_batch=4&checkpointing=full")
>>> report = estimate(run)
>>> report.device, report.peak_phase, report.verdict.kind
"""

from trainmem.architectures import Model
from trainmem.configs import ConfigError
from trainmem.estimate import Report, estimate
from trainmem.huggingface import from_hf
from trainmem.layouts import Limits
from trainmem.link import Problem, link, parse
from trainmem.run import KEYS, Run
from trainmem.search import Candidate, largest, ranked, search, smallest

__version__ = "0.1.0"
__all__ = [
    "KEYS",
    "Candidate",
    "ConfigError",
    "Limits",
    "Model",
    "Problem",
    "Report",
    "Run",
    "estimate",
    "from_hf",
    "largest",
    "link",
    "parse",
    "ranked",
    "search",
    "smallest",
]
