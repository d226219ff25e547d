"""From what tensors take to what nvidia-smi shows: the allocator, library workspaces, the CUDA context, communicators.

Nothing here is derived; every constant is read from published measurements, and says which and how wide they spread.
"""

from typing import NamedTuple

MIB = 1 << 20

CUBLAS_WORKSPACE = {"Hopper": 32 * MIB, "Blackwell": 32 * MIB}
"""torch's default workspace of cuBLAS: 32 MiB on compute capability 9 and up, else 8 MiB (torch's CUDABlas.cpp); one a thread that
uses it, so backward has its own."""
CUBLAS_BEFORE_HOPPER = 8 * MIB + MIB // 8
TRANSFORMER_ENGINE = {"Hopper": 32 * MIB, "Blackwell": 32 * MIB}
TRANSFORMER_ENGINE_BEFORE = 4 * MIB
"""Transformer Engine's own workspace for matrix products, one a device (its cpp_extensions/gemm.py)."""

CUDA_CONTEXT = 512 * MIB, 300 * MIB, 1024 * MIB
"""Expected, low, high. About 300 MB with lazy loading since CUDA 11.7 (pytorch issue 107667); 0.97 GB and more of memory outside the
allocator in axolotl logs (issues 814, 1717); 1,343 MiB on a V100 with CUDA 11.2 (transformers' documentation), which we leave out."""

COMMUNICATOR = 640 * MIB, 300 * MIB, 1600 * MIB
"""A NCCL communicator. 544 MB for two GPUs, 688 MB for four (nccl issue 964); 1.6 GB for the first one on a larger node (issue 864)."""


class Spread(NamedTuple):
    """Low and high as factors on the expected value."""

    low: float
    high: float


ALLOCATED = {
    "alone": Spread(0.99, 1.04),
    "ddp": Spread(0.98, 1.05),
    "fsdp2": Spread(0.97, 1.06),
    "deepspeed": Spread(0.9, 1.15),
    "megatron": Spread(0.98, 1.05),
    "packed": Spread(0.97, 1.15),
    "tensor": Spread(0.93, 1.10),
}
"""Allocated bytes against our forms. Alone: four published runs of Llama 3.2 1B on an RTX A6000 read 0.2 to 2.0 % above. Sharded
runs: no row of this exact kind is public (Megatron: half of 60 runs of its own tests within 0.5 %); the width is that of the kernels and buffers which we leave out. DeepSpeed's buffers depend on
settings (bucket, live parameters) that runs seldom state. Packed (QLoRA): not followed; litgpt's runs read 2 to 6 % above such forms, and
casting the embedding, the head and norms to FP32, as PEFT's preparation does, adds more. Tensor: the split under transformers is unchecked."""

RESERVED = {
    "alone": (1.05, 1.02, 1.12),
    "ddp": (1.05, 1.02, 1.15),
    "fsdp2": (1.06, 1.02, 1.20),
    "deepspeed": (1.08, 1.02, 1.25),
    "megatron": (1.05, 1.03, 1.09),
    "packed": (1.05, 1.02, 1.15),
    "tensor": (1.06, 1.02, 1.20),
}
"""Reserved over allocated: expected, low, high. 1.03 to 1.09, median 1.05, over 19 runs (SimuMax's comparison with Megatron-Core);
1.12 to 1.24 where sharded layers of different sizes come and go (fsdp_qlora); 1.03 to 1.09 for fine-tuning on an L40S (PEFT)."""


def evidence(kind: str, base: str, tensor: int) -> str:
    """Which of the spreads holds for a run: of a packed base, of tensor parallelism under transformers, or of its sharing."""
    if base in ("nf4", "int8"):
        return "packed" if kind != "deepspeed" else kind
    return "tensor" if tensor > 1 and kind in ("alone", "ddp", "fsdp2") else kind


class Overhead(NamedTuple):
    """Bytes beside the tensors on one GPU, expected, low and high. The first two are inside the allocator."""

    workspace: int
    slack: tuple[int, int, int]
    context: tuple[int, int, int]
    communicators: tuple[int, int, int]
    groups: int

    @property
    def expected(self) -> int:
        """The sum of what is expected."""
        return self.workspace + self.slack[0] + self.context[0] + self.communicators[0]


def workspace(generation: str, framework: str, given: int | None, grouped: bool = False) -> int:
    """Bytes of the libraries' workspaces: cuBLAS has one for the forward and one for the backward thread.

    `given`: bytes of one of these, where CUBLAS_WORKSPACE_CONFIG sets it. Megatron adds Transformer Engine's own.
    """
    each = given or CUBLAS_WORKSPACE.get(generation, CUBLAS_BEFORE_HOPPER)
    engine = TRANSFORMER_ENGINE.get(generation, TRANSFORMER_ENGINE_BEFORE)
    engines = (1 + 4 * grouped) * engine  # grouped products run on four streams, each with its own
    return 2 * each + (engines if framework == "megatron" else 0)


def overhead(allocated: int, kind: str, workspaces: int, communicators: int) -> Overhead:
    """Overhead of a run whose tensors take `allocated` bytes; `workspaces` in bytes, `communicators` a count."""
    low, high = ALLOCATED[kind]
    usual, least, most = RESERVED[kind]
    slack = (
        int(allocated * (usual - 1)),
        int(int(allocated * low) * (least - 1)),
        int(int(allocated * high) * (most - 1)),
    )
    usual_each, least_each, most_each = COMMUNICATOR
    each = (communicators * usual_each, communicators * least_each, communicators * most_each)
    return Overhead(workspaces, slack, CUDA_CONTEXT, each, communicators)


def band(allocated: int, kind: str, extra: Overhead, level: str) -> tuple[int, int]:
    """Low and high of one of the three figures: "allocated", "reserved", "device"."""
    low, high = (int(allocated * factor) for factor in ALLOCATED[kind])
    if level == "allocated":
        return low, high
    low, high = low + extra.slack[1] + extra.workspace, high + extra.slack[2] + extra.workspace
    if level == "reserved":
        return low, high
    return low + extra.context[1] + extra.communicators[1], high + extra.context[
        2
    ] + extra.communicators[2]
