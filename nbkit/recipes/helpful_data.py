"""Comparisons for the jobs of chapter 21: HH-RLHF, or those of the language world."""

from pathlib import Path

from nbkit.data.chat import HH_TEMPLATE, ChatEncoder
from nbkit.data.encode import EncodedPair, encode_preferences
from nbkit.data.hh import hh_files, load_hh
from nbkit.data.preferences import Preference
from nbkit.envs.helpful import preference_pairs
from nbkit.text.protocols import Tokenizer


def find_comparisons(data: str) -> list[Path]:
    """The files of HH-RLHF, before anything else is loaded.

    Args:
        data: a name, folder or file, see ``hh_files``; "": the language world, which has none.

    """
    return hh_files(data) if data else []


def load_comparisons(
    files: list[Path], tokenizer: Tokenizer, *, max_prompt: int, max_answer: int
) -> list[EncodedPair]:
    """Encoded pairs; what was left out, and why, is printed.

    Args:
        files: of HH-RLHF; []: 128 pairs of the language world.
        tokenizer: of the model; without a chat template the form of HH-RLHF is taken.
        max_prompt: tokens, see ``encode_preferences``.
        max_answer: tokens.

    """
    preferences: list[Preference] = []
    for path in files:
        loaded = load_hh(path)
        preferences += loaded.preferences
        print(loaded.report.text())
    if not files:
        preferences = [pair.preference(i) for i, pair in enumerate(preference_pairs(128, seed=1))]
    encoder = ChatEncoder(tokenizer, template=None if tokenizer.chat_template else HH_TEMPLATE)
    encoded = encode_preferences(preferences, encoder, max_prompt=max_prompt, max_answer=max_answer)
    print(encoded.report.text())
    return encoded.pairs
