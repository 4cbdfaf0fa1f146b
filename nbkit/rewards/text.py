"""Rewards that are functions of a text, for ``nbkit.text.environment.TextEnv``."""

from collections.abc import Callable
from functools import cache


def contains_keyword(keyword: str) -> Callable[[str], float]:
    """Return a terminal reward: +1 if the text contains ``keyword``, -1 if it does not."""
    _require(keyword)
    return lambda text: 1.0 if keyword in text else -1.0


def keyword_count(keyword: str) -> Callable[[str], float]:
    """Return a terminal reward: the number of times ``keyword`` occurs, without overlap."""
    _require(keyword)
    return lambda text: float(text.count(keyword))


def keyword_per_step(keyword: str, token_cost: float = 0.02) -> Callable[[str, str], float]:
    """Return a step reward: +1 at the first completion of ``keyword``, a cost a token after it.

    Args:
        keyword: what to write.
        token_cost: subtracted for each token that comes after the keyword is complete.

    """
    _require(keyword)

    def reward(before: str, after: str) -> float:
        if keyword in before:
            return -token_cost
        return 1.0 if keyword in after else 0.0

    return reward


@cache
def _vader() -> Callable[[str], float]:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # loads its lexicon

    analyser = SentimentIntensityAnalyzer()
    return lambda text: float(analyser.polarity_scores(text)["compound"])


def sentiment(text: str) -> float:
    """Return VADER's compound score of ``text``, from -1 to 1 (Hutto and Gilbert, 2014).

    VADER adds the lexicon's valence of each word (with rules for adverbs, negation and
    punctuation) to a sum s and reports ``s / sqrt(s**2 + 15)``. The sum grows with every further
    positive word, which is the loophole that the chapter lets a policy find.
    """
    return _vader()(text)


def sentiment_of_distinct_words(text: str) -> float:
    """Return VADER's compound score after each repeated word is dropped: repetition pays nothing.

    A shaped reward: the first occurrence of each word counts, the second is deleted first.
    """
    seen: set[str] = set()
    kept = []
    for word in text.split():
        bare = word.strip(".,").lower()
        if bare not in seen:
            seen.add(bare)
            kept.append(word)
    return _vader()(" ".join(kept))


def _require(keyword: str) -> None:
    if not keyword:
        raise ValueError("keyword: the empty string occurs in every text; name a keyword")
