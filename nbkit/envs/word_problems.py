"""Generated word problems in the form of GSM8K, for a machine to which nothing can be downloaded.

Somebody has things, gets some and gives some away, in two to four steps::

    Ada has 42 apples. Ben gives Ada 17 more. Ada gives 20 to Cleo. How many apples has Ada now?
    42+17=<<42+17=59>>59 ⏎ 59-20=<<59-20=39>>39 ⏎ #### 39

Everything is drawn from a seed. A taught completion may carry a **planted** fault: where something
is given away the pupil adds it. A small model that has learned the language is then right about as
often as its teacher, and the rest is left to reinforcement learning.
"""

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from nbkit._inputs import check_number
from nbkit.data.gsm8k import WordProblem
from nbkit.rewards.formats import TAGS
from nbkit.text.piece_vocabulary import PieceVocabulary

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ida", "Jon")
THINGS = ("apples", "books", "cards", "coins", "eggs", "nuts", "pens", "shells", "stamps", "stones")
MOST = 99
_GAINS = ("{other} gives {who} {n} more.", "{who} finds {n} more.", "{who} buys {n} more.")
_LOSSES = ("{who} gives {n} to {other}.", "{who} loses {n} of them.", "{who} sells {n} of them.")
_WORDS = sorted(
    {
        *NAMES,
        *THINGS,
        *re.findall(r"[A-Za-z]+", re.sub(r"\{\w+\}", "", " ".join(_GAINS + _LOSSES))),
        *("has", "How", "many", "now"),
    }
)
_TOKENS = (
    "<pad>",
    "<eos>",
    *TAGS,
    *"0123456789",
    *"+-=;.? \n",
    *_WORDS,
    *(f" {w}" for w in _WORDS),
)
_PIECE = re.compile(r"<[/a-z]+>| ?[A-Za-z]+|[0-9]|[-+=;.? \n]")


@dataclass(frozen=True)
class Story:
    """A problem with its steps: (amount, whether it is given away)."""

    question: str
    start: int
    steps: tuple[tuple[int, bool], ...]

    @property
    def answer(self) -> int:
        """What is left."""
        return self.start + sum(-n if lost else n for n, lost in self.steps)

    @property
    def problem(self) -> WordProblem:
        """The problem as it would be read from a file."""
        return WordProblem(self.question, "\n".join(self.lines()), str(self.answer))

    @property
    def row(self) -> dict[str, str]:
        """The row of a file in the form of GSM8K."""
        lines = [f"{line.split('=')[0]}=<<{line}>>{line.split('=')[1]}" for line in self.lines()]
        return {"question": self.question, "answer": "\n".join([*lines, f"#### {self.answer}"])}

    def lines(self, *, slip: bool = False) -> list[str]:
        """The calculation, one line a step; with a slip, what is given away is added."""
        total, lines = self.start, []
        for n, lost in self.steps:
            sign = "-" if lost and not slip else "+"
            result = total - n if sign == "-" else total + n
            lines.append(f"{total}{sign}{n}={result}")
            total = result
        return lines

    def completion(self, *, slip: bool = False) -> str:
        """What a careful (or a careless) pupil writes."""
        lines = self.lines(slip=slip)
        return f"<think>{';'.join(lines)}</think><answer>{lines[-1].split('=')[1]}</answer>"


class StoryVocabulary(PieceVocabulary):
    """Tags, digits, signs and the words of the stories, each with and without a blank before it."""

    tokens = _TOKENS
    pattern = _PIECE


def draw_stories(
    count: int, *, seed: int, held_out: bool = False, steps: tuple[int, int] = (2, 4)
) -> list[Story]:
    """Draw stories, each with at least one step that gives something away.

    One story in ten is held out for ever, by a checksum of its text.

    Args:
        count: how many; none comes twice.
        seed: of the draw.
        held_out: from the held-out tenth, else from the rest.
        steps: fewest and most steps.

    Raises:
        ValueError: a count below 1, or steps outside 1 to 6.

    """
    check_number("count", count, 1)
    if not 1 <= steps[0] <= steps[1] <= 6:
        raise ValueError(f"steps must be two numbers from 1 to 6, the smaller first; got {steps}")
    source = random.Random(seed)
    found: dict[str, Story] = {}
    while len(found) < count:
        story = _draw(source, source.randint(*steps))
        if (zlib.crc32(story.question.encode()) % 10 == 0) == held_out:
            found.setdefault(story.question, story)
    return list(found.values())


def _draw(source: random.Random, count: int) -> Story:
    who, other = source.sample(NAMES, 2)
    things = source.choice(THINGS)
    total = start = source.randint(10, MOST)
    losses = [source.random() < 0.5 for _ in range(count)]
    losses[source.randrange(count)] = True
    text, steps = [f"{who} has {start} {things}."], []
    for lost in losses:
        room = total if lost else MOST - total
        lost = lost if room >= 1 else not lost
        n = source.randint(1, max(1, total if lost else MOST - total))
        total += -n if lost else n
        text.append(source.choice(_LOSSES if lost else _GAINS).format(who=who, other=other, n=n))
        steps.append((n, lost))
    text.append(f"How many {things} has {who} now?")
    return Story(" ".join(text), start, tuple(steps))


def story_corpus(
    stories: Sequence[Story], *, slip: float, seed: int
) -> list[tuple[WordProblem, str]]:
    """Problems with completions, of which a share adds where something is given away.

    Args:
        stories: to tell.
        slip: the planted share, 0 to 1.
        seed: of the faults.

    """
    check_number("slip", slip, 0.0, 1.0)
    source = random.Random(f"slips {seed}")
    return [(s.problem, s.completion(slip=source.random() < slip)) for s in stories]
