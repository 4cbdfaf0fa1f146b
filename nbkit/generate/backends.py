"""What the engine may lean on: Triton for its kernels, or vLLM in its place."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import torch
from torch import Tensor

from nbkit.generate.options import Sampling
from nbkit.generate.result import Generation, left_pad
from nbkit.generate.sampling import row_seeds
from nbkit.generate.weights import geometry
from nbkit.text.protocols import LanguageModel


class ServedModel(Protocol):
    """A ``vllm.LLM``."""

    llm_engine: Any

    def generate(
        self, prompts: Sequence[Mapping[str, list[int]]], sampling_params: Any, *, use_tqdm: bool
    ) -> Any:
        """Answer prompts."""
        ...


def triton_fits(module: LanguageModel) -> bool:
    """Whether Triton is installed and the kernels take the model's heads."""
    width = geometry(module).head_dim
    return find_spec("triton") is not None and width >= 16 and width & (width - 1) == 0


def require_triton(device: torch.device, module: LanguageModel) -> None:
    """Raise unless the kernels can run on this device.

    Raises:
        ImportError: Triton is not installed.
        ValueError: a model on a CPU (except under Triton's interpreter), or heads that do not fit.

    """
    if find_spec("triton") is None:
        raise ImportError('backend "triton" needs the package triton, which is not installed')
    import triton

    if device.type != "cuda" and not triton.knobs.runtime.interpret:
        raise ValueError('backend "triton" needs a GPU, and the model is on a CPU; use "torch"')
    if not triton_fits(module):
        raise ValueError(
            'backend "triton" needs heads of a power of two and at least 16 numbers; '
            f'this model has {geometry(module).head_dim}; use "torch"'
        )


def vllm_generate(
    model: LanguageModel | ServedModel | str,
    prompts: Sequence[Sequence[int]],
    limits: Sequence[int],
    sampling: Sampling,
    seeds: int | Sequence[int] | Tensor | torch.Generator | None,
    *,
    group_size: int,
    pad_id: int,
) -> Generation:
    """The same call answered by vLLM.

    vLLM loads its own weights, so the model is a ``vllm.LLM`` or the name or folder of one, and a
    trainer has to hand its weights over itself. Its seeds draw other tokens than ours. It reports
    log-probabilities of the distribution sampled from only when the LLM was made with
    ``logprobs_mode="processed_logprobs"``; a folder or a name is opened like that.

    Raises:
        ImportError: vLLM is not installed.
        ValueError: an LLM that reports other log-probabilities.

    """
    if find_spec("vllm") is None:
        raise ImportError(
            'backend "vllm" needs the package vllm, which is not installed; '
            'use backend="auto" or install vllm beside a CUDA build of torch'
        )
    import vllm

    mode = "processed_logprobs"
    llm = vllm.LLM(model=model, logprobs_mode=mode) if isinstance(model, str) else model
    if not isinstance(llm, vllm.LLM):
        raise ValueError(
            f'model: backend "vllm" takes a vllm.LLM or a folder; got {type(model).__name__}'
        )
    reported = llm.llm_engine.get_model_config().logprobs_mode
    if reported != mode:
        raise ValueError(f"model: make the LLM with logprobs_mode={mode!r}; this has {reported!r}")
    repeated = [list(prompt) for prompt in prompts for _ in range(group_size)]
    drawn = row_seeds(0 if seeds is None else seeds, len(repeated), "cpu").tolist()
    parameters = [
        vllm.SamplingParams(
            max_tokens=limit,
            temperature=sampling.temperature,
            top_k=sampling.top_k or 0,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            seed=None if sampling.temperature == 0 else seed % 2**63,
            stop_token_ids=list(sampling.eos_ids),
            ignore_eos=True,  # only the ids of this call end a row
            logprobs=0,
            detokenize=False,
        )
        for limit, seed in zip(limits, drawn, strict=True)
    ]
    asked = [{"prompt_token_ids": prompt} for prompt in repeated]
    answers = [output.outputs[0] for output in llm.generate(asked, parameters, use_tqdm=False)]
    tokens = [list(answer.token_ids) for answer in answers]
    scores = [
        [place[token].logprob for place, token in zip(answer.logprobs, row, strict=True)]
        for answer, row in zip(answers, tokens, strict=True)
    ]
    return from_lists(repeated, tokens, scores, sampling, pad_id)


def from_lists(
    prompts: list[list[int]],
    tokens: Sequence[Sequence[int]],
    logprobs: Sequence[Sequence[float]],
    sampling: Sampling,
    pad_id: int,
) -> Generation:
    """A ``Generation`` from lists, as a server returns them."""
    rows, width = len(tokens), max(len(row) for row in tokens)
    ids = torch.full((rows, width), pad_id)
    mask = torch.zeros(rows, width, dtype=torch.bool)
    scores = torch.zeros(rows, width)
    for number, (row, row_scores) in enumerate(zip(tokens, logprobs, strict=True)):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = True
        if sampling.temperature:
            scores[number, : len(row)] = torch.tensor(row_scores)
    truncated = torch.tensor([row[-1] not in sampling.eos_ids for row in tokens])
    prompt_ids, prompt_mask = left_pad(prompts, pad_id)
    return Generation(ids, mask, truncated, scores, prompt_ids, prompt_mask)
