"""`generate`: from prompts to a `Generation`, on a CPU and on a GPU."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from nbkit._inputs import check_choice
from nbkit.generate import backends, continuous
from nbkit.generate.inputs import check_ids, eos_tuple, prompt_lists, row_limits
from nbkit.generate.model import Decoder
from nbkit.generate.options import EngineOptions, Sampling
from nbkit.generate.result import Generation, left_pad
from nbkit.generate.runner import Runner
from nbkit.generate.sampling import check_sampling, row_seeds
from nbkit.generate.session import FusedSession, Session
from nbkit.generate.weights import geometry, unwrap
from nbkit.text.protocols import LanguageModel

BACKENDS = ("auto", "torch", "triton", "vllm")
SESSIONS_KEPT = 2
_ENGINES: "WeakKeyDictionary[Any, dict[Any, Engine]]" = WeakKeyDictionary()


class Engine:
    """A model with its caches and graphs, kept from call to call.

    Args:
        model: the module.
        dtype: of the engine, or None.
        options: with nothing left on "auto".

    """

    def __init__(
        self, model: LanguageModel, dtype: torch.dtype | None, options: EngineOptions
    ) -> None:
        self.decoder = Decoder(model, dtype=dtype, join=options.join)
        self.options = options
        self._runners: OrderedDict[tuple[int, ...], Runner] = OrderedDict()
        self._addresses: tuple[int, ...] = self._where()

    def refresh(self, model: LanguageModel) -> None:
        """Read the weights again; graphs that remember other addresses are dropped."""
        self.decoder.refresh(model)
        if self.decoder.device.type == "cuda":
            now = self._where()
            if now != self._addresses:
                for runner in self._runners.values():
                    runner.forget_graphs()
            self._addresses = now

    def _where(self) -> tuple[int, ...]:
        return tuple(tensor.data_ptr() for tensor in self.decoder.weights.tensors())

    def runner(self, slots: int, length: int, rows: int, room: int) -> Runner:
        """A session of at least this size; the last few are kept."""
        step = 64 if self.decoder.device.type == "cuda" else 16
        key = (slots, _up(length, step), 1 << (rows - 1).bit_length(), _up(room, step))
        if key not in self._runners:
            while len(self._runners) >= SESSIONS_KEPT:
                self._runners.popitem(last=False)
            plain = "triton" not in (
                self.options.attention,
                self.options.layers,
                self.options.sampler,
            )
            made = (Session if plain else FusedSession)(self.decoder, *key, self.options)
            self._runners[key] = Runner(made, self.options)
        self._runners.move_to_end(key)
        return self._runners[key]


@torch.no_grad()
def generate(
    model: LanguageModel | backends.ServedModel | str,
    prompts: Sequence[Sequence[int]] | Tensor,
    *,
    max_new_tokens: int | Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    eos_ids: int | Sequence[int] | None = None,
    seeds: int | Sequence[int] | Tensor | torch.Generator | None = None,
    group_size: int = 1,
    max_batch: int | None = None,
    pad_id: int | None = None,
    attention_mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    share_prefix: bool = True,
    continuous_batching: bool = True,
    backend: str = "auto",
    options: EngineOptions | None = None,
) -> Generation:
    """Sample answers to prompts.

    The weights are read from the module at every call. Dropout is never applied. With the same
    seed a row draws the same tokens whatever batch, order, slot or group it sits in; in bfloat16
    that holds up to rounding only, because matrix products of another batch size round differently
    and a near-tie may then fall the other way.

    Args:
        model: a causal language model of transformers of the shape of Llama, Qwen2, Qwen3 or
            GPT-2, or a ``HuggingFacePolicy`` around one; for "vllm" an LLM of it, or a folder.
        prompts: N lists of token ids, or a tensor (N, P) with `attention_mask`.
        max_new_tokens: limit for all rows, or one a row (N·G).
        temperature: logits are divided by it; 0 is greedy.
        top_k: keep the k most probable tokens.
        top_p: then keep the most probable ones that reach this share.
        eos_ids: ids that end a row.
        seeds: an int, one int a row (N·G), or a generator; needed unless `temperature` is 0.
        group_size: answers G to each prompt; the prompt is read once for all of them.
        max_batch: slots; more rows than slots take turns. None: as many slots as rows.
        pad_id: fills the result after a row's end; None: the first EOS id, else 0.
        attention_mask: (N, P) 1 on real tokens, for tensor prompts; either side may be padded.
        dtype: compute in it, on a cast copy of the weights; None: the model's own.
        share_prefix: read each prompt once a group. False is for measuring.
        continuous_batching: refill slots as rows end. False: wait for each wave.
        backend: "auto", "torch" (plain operations), "triton" (GPU kernels), "vllm".
        options: how to compute; see ``EngineOptions``.

    Returns:
        A ``Generation`` on the device of the model.

    Raises:
        ValueError: prompts, limits, seeds or a model that do not fit, named in the message.
        ImportError: a back-end that is not installed.

    """
    start = time.perf_counter()
    check_choice("backend", backend, BACKENDS)
    check_sampling(temperature, top_k, top_p)
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1; got {group_size}")
    if max_batch is not None and max_batch < 1:
        raise ValueError(f"max_batch must be at least 1 or None; got {max_batch}")
    if seeds is None and temperature != 0:
        raise ValueError(
            "seeds must be given unless temperature is 0: an int, one a row, or a torch.Generator"
        )
    listed = prompt_lists(prompts, attention_mask)
    rows = len(listed) * group_size
    limits = row_limits(max_new_tokens, rows)
    ends = eos_tuple(eos_ids)
    sampling = Sampling(float(temperature), top_k, top_p, ends)
    pad = pad_id if pad_id is not None else (ends[0] if ends else 0)
    if backend == "vllm":
        return backends.vllm_generate(
            *(model, listed, limits, sampling, seeds), group_size=group_size, pad_id=pad
        )
    module = unwrap(model)
    engine = engine_for(module, dtype, backend, options)
    decoder = engine.decoder
    vocabulary = decoder.weights.embedding.shape[0]
    check_ids("prompts", (i for prompt in listed for i in prompt), vocabulary)
    check_ids("eos_ids", ends, vocabulary)
    of_row = [number for number in range(len(listed)) for _ in range(group_size)]
    longest = max(len(listed[p]) + limit for p, limit in zip(of_row, limits, strict=True))
    if decoder.shape.longest is not None and longest > decoder.shape.longest:
        raise ValueError(
            f"max_new_tokens: prompt and answer reach {longest} tokens, but the model has "
            f"positions for {decoder.shape.longest}"
        )
    slots = min(max_batch or rows, rows)
    runner = engine.runner(slots, longest, rows, max(limits))
    device = decoder.device
    work = continuous.Work(
        *(listed, of_row, limits, row_seeds(0 if seeds is None else seeds, rows, device)),
        share=share_prefix,
        continuous=continuous_batching,
    )
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        continuous.run(runner, work, sampling)
    return _collect(runner, work, sampling, pad, start)


def engine_for(
    module: LanguageModel, dtype: torch.dtype | None, backend: str, options: EngineOptions | None
) -> Engine:
    """The engine kept for a module, its weights read anew."""
    asked = options or EngineOptions()
    if module not in _ENGINES:
        geometry(module)  # refuses what the engine does not know
    kept = _ENGINES.setdefault(module, {})
    first = next(module.parameters())
    device = first.device
    key = dtype, backend, asked, str(device), first.dtype
    if key not in kept:
        kept[key] = Engine(module, dtype, settle(asked, backend, device, module))
    else:
        kept[key].refresh(module)
    return kept[key]


def settle(
    options: EngineOptions, backend: str, device: torch.device, module: LanguageModel
) -> EngineOptions:
    """Options with every "auto" decided."""
    kernels = backend == "triton" or (
        backend == "auto" and device.type == "cuda" and backends.triton_fits(module)
    )
    if backend == "triton":
        backends.require_triton(device, module)
    best = "triton" if kernels else None
    settled = replace(
        options,
        attention=_decide(options.attention, best or "sdpa"),
        layers=_decide(options.layers, best or "torch"),
        sampler=_decide(options.sampler, best or "torch"),
    )
    if "triton" in (settled.attention, settled.layers, settled.sampler):
        backends.require_triton(device, module)
    if settled.graph is None:
        settled = replace(settled, graph=device.type == "cuda")
    if settled.graph and device.type != "cuda":
        raise ValueError("options.graph: CUDA graphs need a GPU, and the model is on a CPU")
    return settled


def clear(model: object = None) -> None:
    """Hand back the caches and graphs kept for a model, or for all."""
    if model is None:
        _ENGINES.clear()
    else:
        _ENGINES.pop(unwrap(model), None)


def _collect(
    runner: Runner, work: continuous.Work, sampling: Sampling, pad: int, start: float
) -> Generation:
    """Cut the result out of the session's memory."""
    rows, room = len(work.limits), max(work.limits)
    state = runner.session.state
    tokens = state["out_tokens"][:rows, :room]
    mask = tokens >= 0
    width = int(mask.sum(1).max())
    tokens, mask = tokens[:, :width], mask[:, :width]
    logprobs = state["out_logprobs"][:rows, :width].clone()
    if bool(logprobs.isnan().any()):
        raise ValueError("model: its logits hold NaN or only -inf, and nothing can be sampled")
    lengths = mask.sum(1)
    last = tokens.gather(1, (lengths - 1)[:, None])[:, 0]
    ended = torch.zeros_like(last, dtype=torch.bool)
    for eos in sampling.eos_ids:
        ended |= last == eos
    prompts = [list(work.prompts[number]) for number in work.prompt_of_row]
    prompt_ids, prompt_mask = left_pad(prompts, pad, tokens.device)
    stats = {**work.stats, "seconds": time.perf_counter() - start}
    return Generation(
        tokens=tokens.masked_fill(~mask, pad),
        mask=mask,
        truncated=~ended,
        logprobs=logprobs,
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        stats=stats,
    )


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _decide(asked: str, best: str) -> str:
    return best if asked == "auto" else asked
