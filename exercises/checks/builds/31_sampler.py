"""The judge of build 31: a sampler with a cache, token by token and faster."""

from bookkit.builds.decoding import EqualStage, FasterStage
from bookkit.builds.limits import Budget
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import edit, edits

TWINS = (
    edit(
        "padding has positions",
        "(real.long().cumsum(1) - 1).clamp(min=0)",
        "torch.arange(ids.shape[1]).expand(ids.shape)",
        "positions count it",
    ),
    edit(
        "padding is attended to",
        "        seen = real[:, None]\n",
        "        seen = torch.ones_like(real)[:, None]\n",
        "the padding is attended to",
    ),
    edit("no temperature", "(logits / temperature)", "logits", "The temperature is not used"),
    edit(
        "the most likely token", "above.int().argmax(-1)", "logits.argmax(-1)", "draws are not used"
    ),
    edit(
        "one draw for all rows",
        "draws[:, place, None]",
        "draws[:1, place, None]",
        "All rows use the draws of the first row",
    ),
    edit(
        "no end",
        "running[row] = token != eos_id",
        "running[row] = True",
        "Answers go on after the end",
    ),
    edits(
        "the end is left out",
        ("answers[row].append(token)", "answers[row] += [token] if token != eos_id else []"),
        message="The EOS is missing",
    ),
    edit(
        "new tokens stand still",
        "positions[:, -1:] + 1",
        "positions[:, -1:]",
        "look at the position of a new token",
    ),
    edit(
        "the cache forgets",
        "        kept.append((key, value))\n",
        "        kept.append((key, value) if old is None else (old[0], old[1]))\n"
        "        seen = seen[:, :, -key.shape[2] :]\n",
        "what is put into the cache",
    ),
    edit(
        "logits of the first token",
        "model.end(x)[:, -1]",
        "model.end(x)[:, 0]",
        "The first tokens differ already",
    ),
    edits(
        "no cache",
        (
            "        ids, positions = tokens[:, None], positions[:, -1:] + 1\n",
            "        ids = torch.cat([ids, tokens[:, None]], 1)\n"
            "        positions = torch.cat([positions, positions[:, -1:] + 1], 1)\n"
            "        width, cache = width + 1, [None] * len(model.blocks)\n"
            "        causal = torch.ones(width, width, dtype=torch.bool).tril()\n",
        ),
        (
            "        seen = real[:, None]\n",
            "        seen = (causal & real[:, None]) | torch.eye(width, dtype=torch.bool)\n",
        ),
        message="It is not faster",
    ),
)

BUILD = Build(
    number=31,
    slug="sampler",
    title="a sampler with a cache",
    part="sampling",
    budget=Budget(processor_seconds=60.0),
    stages=(EqualStage("equal"), FasterStage("faster", share=0.4)),
    milestones=("sampling.cache.1", "sampling.positions.1", "sampling.logprob.1"),
    twins=TWINS,
    not_tested="lower precision, GPUs, and prompts that share a beginning.",
)
