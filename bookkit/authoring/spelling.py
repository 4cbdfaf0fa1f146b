"""British spelling: a short, explicit list of American forms and what the book writes instead."""

import re

# Stems that end in -ise in this book. "Tokenizer" stays: it is the name of a thing in libraries.
ISE = (
    "amort|anonym|author|bal|categor|central|character|critic|custom|discret|emphas|equal|factor|"
    "final|formal|general|global|harmon|hypothes|ideal|initial|item|linear|local|marginal|maxim|"
    "memor|minim|modern|moral|normal|optim|organ|parallel|parameter|penal|polar|prior|priorit|"
    "quant|random|rational|real|recogn|regular|reparameter|revital|serial|special|stabil|standard|"
    "summar|symbol|symmetr|synchron|synthes|util|vector|visual"
)
ENDINGS = "e|ed|es|er|ers|ing|ation|ations|able"
WORDS = {
    "analog": "analogue",
    "analyze": "analyse",
    "analyzed": "analysed",
    "analyzes": "analyses",
    "analyzing": "analysing",
    "behavior": "behaviour",
    "behavioral": "behavioural",
    "behaviors": "behaviours",
    "canceled": "cancelled",
    "canceling": "cancelling",
    "catalog": "catalogue",
    "center": "centre",
    "centered": "centred",
    "centering": "centring",
    "centers": "centres",
    "color": "colour",
    "colored": "coloured",
    "coloring": "colouring",
    "colors": "colours",
    "defense": "defence",
    "favor": "favour",
    "favorable": "favourable",
    "favored": "favoured",
    "favorite": "favourite",
    "favors": "favours",
    "fulfill": "fulfil",
    "gray": "grey",
    "honor": "honour",
    "labeled": "labelled",
    "labeling": "labelling",
    "modeled": "modelled",
    "modeling": "modelling",
    "neighbor": "neighbour",
    "neighborhood": "neighbourhood",
    "neighboring": "neighbouring",
    "neighbors": "neighbours",
    "offense": "offence",
    "rigor": "rigour",
    "signaled": "signalled",
    "signaling": "signalling",
    "skeptical": "sceptical",
    "toward": "towards",
    "traveled": "travelled",
    "traveling": "travelling",
    "unlabeled": "unlabelled",
}
AMERICAN = re.compile(
    rf"\b(?:(?P<stem>(?:re|un|de|over|under|pre)?(?:{ISE}))iz(?P<end>{ENDINGS})"
    rf"|(?P<word>{'|'.join(sorted(WORDS, key=len, reverse=True))}))\b"
)


def american_words(text: str) -> list[tuple[str, str]]:
    """Find American forms, each with the British one.

    Only words in small letters count: a capital marks a name, as in Proximal Policy Optimization.
    """
    found = []
    for match in AMERICAN.finditer(text):
        if match["word"]:
            found.append((match["word"], WORDS[match["word"]]))
        else:
            found.append((match[0], f"{match['stem']}is{match['end']}"))
    return found
