"""Words that read as translated: a short list, each with what the field writes instead."""

import re
from collections.abc import Iterator

from bookkit.authoring.blocks import blocks_of
from bookkit.authoring.claims import sentences_of
from bookkit.authoring.prose import line_of

# Things that are counted, and what each of them belongs to: "one number a dimension".
COUNTED = "numbers?|bytes?|bits?|tokens?|rows?|weights?|messages?|logits?|values?"
OWNERS = (
    "dimension|row|token|weight|number|rank|step|head|answer|text|device|block|pass|layer|group"
)
# A place in a sequence is before or after another one, not behind it.
PLACES = (
    "end|last|terminal|cut-off|cut|truncat\\w*|step|rows?|comma|form|pad|EOS|mark|prompt|answer"
)
IDIOMS = {
    r"for ever": "forever",
    r"mends?|mended|mending": "repair or fix",
    r"makeshifts?": "workaround",
    r"dear(?:er|est)": "more expensive or most expensive",
    r"(?:is|are|was|were|too|very|so|as) dear": "expensive",
    r"(?:critic|model|head|network|judge)['’]s word": "estimate",
    r"on the way back": "in the backward pass",
    r"who waits for whom": "bottleneck",
    rf"(?:{COUNTED}) an? (?:{OWNERS})": "per, as in 'one number per dimension'",
    rf"[Bb]ehind (?:a|an|the|each|every|its|their) (?:\w+['’]s )?(?:{PLACES})": "after",
    r"hangs? together": "is related",
    r"graphics? cards?": "GPU",
}
BETTER = list(IDIOMS.values())
READ = {"prose", "heading", "table"}
IDIOM = re.compile("|".join(rf"(?P<i{n}>\b(?:{pattern})\b)" for n, pattern in enumerate(IDIOMS)))


def translated_words(page: str) -> Iterator[tuple[int, str, str]]:
    """Find such words in the prose, the headings and the tables of a MyST page.

    Returns:
        Of each the line on which its sentence begins, the words, and what to write instead.
    """
    for block in blocks_of(page):
        if block.kind in READ:
            for number, sentence in sentences_of(block):
                for match in IDIOM.finditer(line_of(number, sentence).words.replace("*", "")):
                    pattern = int((match.lastgroup or "i0")[1:])
                    yield number, match[0], BETTER[pattern]
