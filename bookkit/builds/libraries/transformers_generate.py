"""transformers' `generate` with the weights of build 31's decoder: its logits, and its time."""

import random
import time
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from bookkit.builds.decoder import HEADS, LAYERS, LONGEST, VOCABULARY, WIDTH, Decoder, decoder
from bookkit.builds.decoding import Order, plain_seconds
from bookkit.builds.verdict import Build

ROWS, START, NEW = 8, 32, LONGEST - 40  # as the stage `faster` asks for
AGREE = 1e-9


def as_gpt2(model: Decoder) -> GPT2LMHeadModel:
    """The same decoder as a GPT-2 of transformers, in float64.

    Raises:
        ValueError: their logits differ.

    """
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LONGEST,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        activation_function="gelu",
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    made = GPT2LMHeadModel(config).double().eval().requires_grad_(False)
    made.lm_head = nn.Linear(WIDTH, VOCABULARY).double().requires_grad_(False)
    body = made.transformer
    pairs: list[tuple[Any, Any]] = [
        (body.wte, model.embedding),
        (body.wpe, model.position),
        (body.ln_f, model.norm),
        (made.lm_head, model.head),
    ]
    blocks: list[Any] = list(model.blocks)
    for theirs, ours in zip(body.h, blocks, strict=True):
        pairs += [
            (theirs.ln_1, ours.norm_attention),
            (theirs.attn.c_attn, ours.qkv),
            (theirs.attn.c_proj, ours.out),
            (theirs.ln_2, ours.norm_mlp),
            (theirs.mlp.c_fc, ours.mlp[0]),
            (theirs.mlp.c_proj, ours.mlp[2]),
        ]
    for theirs, ours in pairs:
        _copy(theirs, ours)
    away = difference(made, model)
    if not away <= AGREE:
        raise ValueError(f"the logits of transformers' GPT-2 differ by {away:.1e} from ours")
    return made


def _copy(theirs: Any, ours: Any) -> None:
    weight: Tensor = ours.weight
    if type(theirs).__name__ == "Conv1D":  # keeps its weight the other way round
        weight = weight.T
    theirs.weight.data.copy_(weight)
    if getattr(ours, "bias", None) is not None:
        theirs.bias.data.copy_(ours.bias)


@torch.no_grad()
def difference(theirs: GPT2LMHeadModel, ours: Decoder) -> float:
    """The largest difference of their logits on some random tokens."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, VOCABULARY, (4, 40), generator=generator)
    read = theirs(ids, attention_mask=torch.ones_like(ids)).logits
    return float((read - ours(ids)).abs().max())


def measured(build: Build, draw: random.Random) -> dict[str, dict[str, Any]]:
    """Compare logits; time the long answers of the stage `faster`, with its cache and without."""
    model = decoder(draw.randrange(2**31))
    theirs = as_gpt2(model)
    order = Order.drawn(
        draw, rows=ROWS, lengths=(START, START), new=NEW, temperature=1.0, eos_id=-1
    )
    seconds = {cache: _seconds(theirs, order, use_cache=cache) for cache in (True, False)}
    _, plain = plain_seconds(model, order)
    label = f"transformers {version('transformers')}"
    equal, faster = (stage.title for stage in build.stages)
    return {
        equal: {
            "label": label,
            "said": "`generate` draws with a generator of its own and takes no numbers from "
            "outside, so its tokens cannot be compared; its logits with these weights are ours "
            f"within {difference(theirs, model):.0e}",
            "curve": [],
            "processor_seconds": 0.0,
        },
        faster: {
            "label": label,
            "said": f"no curve: a sampler does not learn. `generate` takes {seconds[True]:.2f} s "
            f"of processor time for {ROWS * NEW:,} tokens with its cache, {seconds[False]:.2f} s "
            f"without, the plain way {plain:.2f} s",
            "curve": [],
            "processor_seconds": round(seconds[True], 2),
        },
    }


def _seconds(model: GPT2LMHeadModel, order: Order, *, use_cache: bool) -> float:
    prompts = torch.tensor(order.prompts)
    words: dict[str, Any] = {"do_sample": True, "top_k": 0, "use_cache": use_cache}
    mask = torch.ones_like(prompts)
    model.generate(prompts, attention_mask=mask, max_new_tokens=4, **words)  # loads what it needs
    began = time.process_time()
    found = model.generate(prompts, attention_mask=mask, max_new_tokens=NEW, **words)
    seconds = time.process_time() - began
    assert found.shape == (ROWS, START + NEW)
    return seconds
