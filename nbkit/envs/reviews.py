"""A generator of short film reviews: the book's first corpus, made and not downloaded.

The grammar is small enough for an LSTM to learn in a minute on a CPU, and rich enough to have
something to lose: word order, agreement of tone with words, commas, full stops. Tone is balanced
over the corpus, and every word is drawn at random, so the author of a review has no opinion.
"""

import random

POSITIVE = ("good", "great", "lovely", "fun", "happy", "superb", "clever", "charming", "brilliant")
NEGATIVE = ("bad", "poor", "awful", "boring", "sad", "terrible", "stupid", "horrible", "annoying")
NEUTRAL = ("long", "short", "slow", "quiet", "loud", "new", "old", "plain", "strange")
COUNT_NOUNS = ("film", "plot", "cast", "story", "ending", "script")
NOUNS = (*COUNT_NOUNS, "music", "acting")
VERBS_POSITIVE = ("loved", "liked", "enjoyed")
VERBS_NEGATIVE = ("hated", "disliked")
VERBS_NEUTRAL = ("saw", "watched", "noticed")
ADVERBS = ("very", "so", "quite", "rather")

_ADJECTIVES = {"positive": POSITIVE, "negative": NEGATIVE, "neutral": NEUTRAL}
_VERBS = {"positive": VERBS_POSITIVE, "negative": VERBS_NEGATIVE, "neutral": VERBS_NEUTRAL}


def _is_adjective(tone: str, rng: random.Random) -> str:
    adverb = f"{rng.choice(ADVERBS)} " if rng.random() < 0.3 else ""
    return f"the {rng.choice(NOUNS)} was {adverb}{rng.choice(_ADJECTIVES[tone])}"


def _verb_noun(tone: str, rng: random.Random) -> str:
    return f"i {rng.choice(_VERBS[tone])} the {rng.choice(NOUNS)}"


def _adjective_noun(tone: str, rng: random.Random) -> str:
    adjective = rng.choice(_ADJECTIVES[tone])
    article = "an" if adjective[0] in "aeiou" else "a"
    return f"{article} {adjective} {rng.choice(COUNT_NOUNS)}"


def _adjective_list(tone: str, rng: random.Random) -> str:
    return ", ".join(rng.choice(_ADJECTIVES[tone]) for _ in range(rng.randint(2, 4)))


_CLAUSES = (_is_adjective, _verb_noun, _adjective_noun, _adjective_list)


def review(rng: random.Random, *, max_characters: int = 39) -> str:
    """Return one review: one or two clauses of one tone, at most ``max_characters`` long."""
    tone = rng.choice(("positive", "negative", "neutral"))
    while True:
        clauses = [rng.choice(_CLAUSES)(tone, rng) for _ in range(rng.randint(1, 2))]
        text = " and ".join(clauses) + "."
        if len(text) <= max_characters:
            return text


def reviews(count: int, *, seed: int, max_characters: int = 39) -> list[str]:
    """Return ``count`` independent reviews; the same seed gives the same list.

    Errors:
        ValueError: ``count`` below 1, or ``max_characters`` too short for any review (below 24).

    """
    if count < 1:
        raise ValueError(f"count: need at least 1 review, got {count}")
    if max_characters < 24:
        raise ValueError(f"max_characters: need at least 24, got {max_characters}")
    rng = random.Random(seed)
    return [review(rng, max_characters=max_characters) for _ in range(count)]


ALPHABET = "abcdefghijklmnopqrstuvwxyz ,."
