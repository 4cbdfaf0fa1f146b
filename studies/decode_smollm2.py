"""The sampling engine on real weights: the tokens of transformers, and speeds at real lengths.

Protocol, fixed before the run. Questions of GSM8K in SmolLM2-135M's chat template. Greedy answers
of the engine beside those of transformers' ``generate``, in float32 and in bfloat16: rows that are
equal, where the others part, and by how much the two best logits differ there. One pass of the
module over the engine's own answers says at how many single steps the argmax is another one. Then
seconds for answers as long as those of the data, which no EOS ends: the engine with all rows at
once, with fewer slots refilled, and with fewer slots in waves, and ``generate`` in batches.

The weights are 4-bit, dequantised (`nbkit model fetch smollm2-135m`); the variable NBKIT_GSM8K
names a folder with the two files. Needs a GPU.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bookkit.authoring.study import start_study
from nbkit.data.pretrained import MODELS, fetched
from nbkit.generate import Generation, clear, generate
from nbkit.masks import position_ids
from nbkit.text.chat_vocabulary import ChatVocabulary
from nbkit.text.tiny_models import tiny_model
from nbkit.text.vocabulary import CharVocabulary
from studies._frame import Frame
from studies._gsm8k import example, problems

MODEL = "smollm2-135m"
GREEDY_ROWS, GREEDY_TOKENS = 64, 128
SPEED_ROWS, SLOTS, REPEATS = 192, 64, 3
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def by_transformers(model: Any, prompts: Sequence[Sequence[int]], tokens: int, pad: int) -> Tensor:
    """Greedy answers (R, T) of exactly so many tokens, by the library's own loop."""
    width = max(map(len, prompts))
    device = next(model.parameters()).device
    ids = torch.tensor([[pad] * (width - len(row)) + list(row) for row in prompts], device=device)
    lengths = torch.tensor([len(row) for row in prompts], device=device)
    attention = (torch.arange(width, device=device) >= width - lengths[:, None]).long()
    made: Tensor = model.generate(
        input_ids=ids, attention_mask=attention, max_new_tokens=tokens, min_new_tokens=tokens,
        do_sample=False, pad_token_id=pad, eos_token_id=None, top_k=None, top_p=None,
        temperature=None,
    )  # fmt: skip
    return made[:, width:]


@torch.no_grad()
def compared(model: Any, prompts: Sequence[Sequence[int]], tokens: int, pad: int) -> dict[str, Any]:
    """Greedy answers of engine and library, token by token.

    Returns:
        "rows", "equal_rows", "tokens" (in all), "first_difference" (where each row that is not
        equal parts, from 0), "gap" (the two best logits' difference there, nats), "flips" (tokens
        of the engine that are not the argmax of one pass over its answers).

    """
    made = generate(model, prompts, max_new_tokens=tokens, temperature=0.0, pad_id=pad)
    clear(model)
    theirs = by_transformers(model, prompts, tokens, pad)
    different = made.tokens != theirs
    first = [int(row.int().argmax()) for row in different[different.any(1)]]
    gaps, flips = [], 0
    for row in range(len(prompts)):
        logits = _logits(model, made, row)
        flips += int((logits.argmax(-1) != made.tokens[row]).sum())
        if different[row].any():
            best = logits[int(different[row].int().argmax())].topk(2).values
            gaps.append((best[0] - best[1]).item())
    return {
        "rows": len(prompts),
        "equal_rows": int((~different.any(1)).sum()),
        "tokens": different.numel(),
        "first_difference": first,
        "gap": gaps,
        "flips": flips,
    }


def _logits(model: Any, made: Generation, row: int) -> Tensor:
    """What one pass says of each token of an answer, (T, V) float32."""
    attention = made.attention[row : row + 1]
    found: Tensor = model(
        input_ids=made.ids[row : row + 1],
        attention_mask=attention.long(),
        position_ids=position_ids(attention),
        use_cache=False,
    ).logits[0]
    return found[-made.tokens.shape[1] - 1 : -1].float()


def timed(call: Callable[[], Any], repeats: int) -> list[float]:
    """Seconds of calls."""
    seconds = []
    for _ in range(repeats):
        begun = _now()
        call()
        seconds.append(_now() - begun)
    return seconds


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def speeds(
    model: Any, prompts: Sequence[Sequence[int]], lengths: list[int], pad: int, slots: int
) -> dict[str, list[float]]:
    """Seconds for answers of given lengths, by way of making them; the engine's with repeats."""

    def engine(**how: Any) -> list[float]:
        found = timed(
            lambda: generate(
                model, prompts, max_new_tokens=lengths, temperature=1.0, seeds=0, pad_id=pad, **how
            ),
            1 + REPEATS,
        )
        clear(model)
        return found[1:]  # the first one sets up memory and graphs

    def library() -> None:
        for start in range(0, len(prompts), slots):
            longest = max(lengths[start : start + slots])
            by_transformers(model, prompts[start : start + slots], longest, pad)

    return {
        "engine, all rows": engine(),
        "engine, slots refilled": engine(max_batch=slots),
        "engine, slots in waves": engine(max_batch=slots, continuous_batching=False),
        "transformers, batches": timed(library, 1),
    }


def measure(out: Path, device: str = "cuda") -> None:
    """Run the study and write its stamped result.

    Args:
        out: the result file.
        device: of the model.

    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    study = start_study(out, seeds=[0], config=protocol())
    torch.set_float32_matmul_precision("highest")  # float32 products in float32, not TF32
    folder = fetched(MODEL)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    train, test = problems()
    equality: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().to(device)
        vocabulary = ChatVocabulary(tokenizer, model.generation_config)
        asked = [vocabulary.encode(problem.prompt) for problem in test[:GREEDY_ROWS]]
        equality[name] = compared(model, asked, GREEDY_TOKENS, vocabulary.pad_id)
        print(name, {k: v for k, v in equality[name].items() if k != "gap"}, flush=True)
    some = train[:SPEED_ROWS]
    lengths = [len(example(problem, vocabulary).answer_ids) for problem in some]
    asked = [vocabulary.encode(problem.prompt) for problem in some]
    for way, seconds in speeds(model, asked, lengths, vocabulary.pad_id, SLOTS).items():
        rate = sum(lengths) / sorted(seconds)[len(seconds) // 2]
        found[way] = {"seconds": seconds, "tokens_per_second": rate}
        print(f"{way}: {rate:.0f} tokens/s", flush=True)
    study.finish({"greedy": equality, "lengths": lengths, "speeds": found})


def head() -> dict[str, float]:
    """A tiny model in float32: how many tokens agree, and what sampled ones are worth to it."""
    vocabulary = CharVocabulary("abcdefgh ")
    model = tiny_model(vocabulary, seed=3, max_length=64)
    prompts = [vocabulary.encode(text) for text in ("ab", "cde f", "h")]
    found = compared(model, prompts, 12, vocabulary.pad_id)
    made = generate(model, prompts, max_new_tokens=12, seeds=1, pad_id=vocabulary.pad_id)
    figures = {f"{name}": float(found[name]) for name in ("equal_rows", "tokens", "flips")}
    worth = made.logprobs.sum(1).tolist()
    return figures | {f"log-probability {number}": value for number, value in enumerate(worth)}


def protocol() -> dict[str, Any]:
    """The protocol; the digest of the weights is that of `nbkit model`."""
    source = MODELS[MODEL]
    return {
        "model": {"name": MODEL, "remark": source.remark, "sha256": source.member_sha256},
        "data": "GSM8K: questions of the test part, lengths of training answers",
        "greedy": {"rows": GREEDY_ROWS, "tokens": GREEDY_TOKENS},
        "speeds": {"rows": SPEED_ROWS, "slots": SLOTS, "repeats": REPEATS},
    }


TOLERANCES = {
    "equal_rows": 0.1,
    "tokens": 0.1,
    "flips": 0.1,
    **{f"log-probability {number}": 1e-3 for number in range(3)},
}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
