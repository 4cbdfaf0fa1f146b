"""A vocabulary and small policies of every kind, shared by the tests of text generation."""

import pytest
import torch

from nbkit.envs.reviews import ALPHABET
from nbkit.text.policies import HuggingFacePolicy, make_policy
from nbkit.text.vocabulary import CharVocabulary

SIZES = {"lstm": {"width": 16}, "transformer": {"width": 16, "layers": 2, "heads": 2}}


@pytest.fixture
def vocabulary():
    return CharVocabulary(ALPHABET)


def tiny_gpt2(vocabulary_size: int, folder):
    """Save a random GPT-2 to disk and load it by from_pretrained, as a reader would."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=vocabulary_size, n_positions=64, n_embd=16, n_layer=2, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(folder)
    return HuggingFacePolicy.from_pretrained(str(folder))


@pytest.fixture(params=["lstm", "transformer", "gpt2"])
def policy(request, vocabulary, tmp_path):
    torch.manual_seed(0)
    if request.param == "gpt2":
        return tiny_gpt2(len(vocabulary), tmp_path)
    return make_policy(request.param, len(vocabulary), **SIZES[request.param])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
