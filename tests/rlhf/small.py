"""A tiny untrained model with the vocabulary of the world, and its data."""

import torch

from nbkit.envs.helpful import HelpfulVocabulary, demonstrations, encode_demonstrations
from nbkit.text.tiny_models import tiny_model

VOCABULARY = HelpfulVocabulary()
PAD = VOCABULARY.pad_id


def model(seed=0, **sizes):
    return tiny_model(VOCABULARY, **{"width": 16, "layers": 1, "heads": 2, "seed": seed} | sizes)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def examples(count=32, seed=3):
    return encode_demonstrations(demonstrations(count, seed=seed), VOCABULARY)
