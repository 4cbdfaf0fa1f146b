"""A tiny untrained model and random pairs of answers."""

import torch

from nbkit.data.encode import EncodedPair
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.dpo import DPOConfig, DPOTrainer

SIZE, PAD, BOS, EOS = 24, 0, 1, 2


class Letters:
    """As much of a vocabulary as a model needs."""

    pad_id, bos_id, eos_id = PAD, BOS, EOS

    def __len__(self):
        return SIZE


def model(seed=0, **sizes):
    return tiny_model(Letters(), **{"width": 16, "layers": 1, "heads": 2, "seed": seed} | sizes)


def pairs(count=12, seed=1):
    """Prompts and answers of many lengths; an answer ends with EOS."""
    g = torch.Generator().manual_seed(seed)

    def tokens(low, high):
        length = int(torch.randint(low, high + 1, (), generator=g))
        return torch.randint(3, SIZE, (length,), generator=g).tolist()

    return [
        EncodedPair([BOS, *tokens(1, 4)], [*tokens(1, 6), EOS], [*tokens(1, 6), EOS])
        for _ in range(count)
    ]


def config(**changes):
    return DPOConfig(**{"steps": 6, "batch_size": 4, "warmup": 2, "learning_rate": 1e-2} | changes)


def generator(seed=7):
    return torch.Generator().manual_seed(seed)


def trainer(settings=None, **given):
    given = {"model": model(), "pairs": pairs(), "reference": None} | given
    return DPOTrainer(
        given["model"],
        given["pairs"],
        settings or config(),
        reference=given["reference"],
        pad_id=PAD,
        generator=generator(),
    )


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])
