"""Which attention kernels of a GPU give a gradient that is not finite, at which widths of a batch.

    python benchmarks/masked_attention.py --out benchmarks/results/masked_attention.json

Queries and keys are such that all scores of a row are far below 0, as in heads of pretrained models
that attend to one token. Each kernel of torch gets them with a causal mask, with a mask that hides
padding on the left as well, and as "causal" without a mask. Counted are the elements of the three
gradients that are not finite, and the largest difference of the finite outputs from float32.
"""

import math
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from side_by_side import start
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

KERNELS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "math": SDPBackend.MATH,
}
WIDTHS = (64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512, 704)
SCORES = (-40.0, -120.0)
ROWS, HEADS, SIZE = 2, 3, 64


def inputs(width: int, score: float, device: str, seed: int) -> list[Tensor]:
    """Queries, keys, values (ROWS, HEADS, width, SIZE) in bfloat16, all scores near `score`."""
    generator = torch.Generator().manual_seed(seed)
    shape = (ROWS, HEADS, width, SIZE)
    made = [torch.randn(shape, generator=generator) for _ in range(3)]
    queries, keys, values = (0.1 * made[0], 0.1 * made[1], made[2])
    queries[..., 0], keys[..., 0] = 1.0, score * math.sqrt(SIZE)
    return [one.to(device, torch.bfloat16).requires_grad_() for one in (queries, keys, values)]


def masks(width: int, device: str) -> dict[str, Tensor | None]:
    """Causal, causal behind padding of a third of the width, and none (the kernel's own causal)."""
    causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
    behind = causal.clone()
    behind[:, : width // 3] = False
    behind.fill_diagonal_(True)  # a row of padding sees itself
    return {"causal": causal, "padded": behind, "none": None}


def tried(kernel: SDPBackend, given: list[Tensor], mask: Tensor | None) -> dict[str, Any]:
    """Run a kernel forward and backward; "refused" where it does not take these inputs."""
    plain = [one.detach().float() for one in given]
    wanted = scaled_dot_product_attention(*plain, attn_mask=mask, is_causal=mask is None)
    try:
        with sdpa_kernel(kernel):
            made = scaled_dot_product_attention(*given, attn_mask=mask, is_causal=mask is None)
            gradients = torch.autograd.grad(made.sum(), given)
    except RuntimeError:
        return {"refused": True}
    names = ("queries", "keys", "values")
    return {
        "refused": False,
        "not_finite": {
            name: int((~torch.isfinite(gradient)).sum())
            for name, gradient in zip(names, gradients, strict=True)
        },
        "error": (made.float() - wanted).abs().max().item(),
    }


def main(
    out: Annotated[Path, typer.Option(help="Where the result goes.")],
    device: Annotated[str, typer.Option(help="Of the kernels.")] = "cuda",
    seed: int = 0,
) -> None:
    """Try every kernel at every width."""
    study = start(out, seeds=[seed], config={"widths": WIDTHS, "scores": SCORES, "size": SIZE})
    rows = []
    for width in WIDTHS:
        for score in SCORES:
            given = inputs(width, score, device, seed)
            for word, mask in masks(width, device).items():
                for name, kernel in KERNELS.items():
                    found = tried(kernel, given, mask)
                    rows.append(
                        {"kernel": name, "width": width, "score": score, "mask": word, **found}
                    )
    study.finish({"rows": rows})
    bad = [row for row in rows if not row["refused"] and any(row["not_finite"].values())]
    print(f"{len(rows)} tried, {len(bad)} with a gradient that is not finite")
    for row in bad:
        print(row)


if __name__ == "__main__":
    typer.run(main)
