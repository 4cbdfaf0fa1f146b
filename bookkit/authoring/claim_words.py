"""The words with which a sentence claims something: that it compares, or that it states a cause."""

import re

COMPARISON = re.compile(
    r"\b(?:faster|fastest|slower|slowest|better|best(?![- ]of\b)|worse|worst|cheaper|cheapest|"
    r"dearer|dearest|easier|easiest|harder|hardest|stronger|weaker|safer|never|always|hardly|"
    r"rarely|seldom|often|usually|mostly|mainly|beats?|outperform\w*|(?<!at )most|fewer|"
    r"(?:more|less) \w+ than)\b",
    re.IGNORECASE,
)
# "So" joins a consequence after a mark or at the beginning; "so that" is a purpose, "so far" a
# time, "so do the others" an equal. "Since" is a cause at the beginning and after a comma.
CAUSE = re.compile(
    r"\b(?:because|(?:which|that|this) is why|therefore|hence|thus|thereby|due to|owing to|"
    r"thanks to|for (?:this|that) reason|as a result|consequently|caus(?:es|ed|ing)|"
    r"(?:leads?|led|leading) to|result(?:ed|ing) in|explains|explained by|(?:bound|limited) by|"
    r"stems? from|the (?:cause|reason)(?: (?:is|was)|:))(?!\w)|"
    r"(?:^[\W_]*|[,;:–—(]\s*|\band )so\b(?!-| (?:that|far|long|on|called|do|does|did|is|are|was|"
    r"were|has|have|can|will)\b)|"
    r"(?:^[\W_]*|, )since\b(?! (?:then|\d))",
    re.IGNORECASE,
)
GUESS = re.compile(
    r"\b(?:(?:we|our|my) guess|(?:is|as|by) (?:a|our) guess|a guess|guesses|guessed|"
    r"(?:likely|possible|probable|plausible) (?:causes?|reasons?|explanations?)|"
    r"not (?:been )?tested|untested)\b",
    re.IGNORECASE,
)


def claim_words(words: str) -> list[str]:
    """The words of a sentence that want evidence, without the marks around them.

    A cause that is called a guess, or untested, in the same sentence wants none.

    Args:
        words: the sentence without code, mathematics and addresses.
    """
    found = list(COMPARISON.finditer(words))
    if not GUESS.search(words):
        found += CAUSE.finditer(words)
    found.sort(key=lambda match: match.start())
    return [re.sub(r"^[\W_]+", "", match[0]) for match in found]
