"""The numbers game: reach a target with all given numbers, by trying for as long as one likes.

A problem is ``3 7 8>31:``. A completion is one attempt after the other, a semicolon after each that
fails, an exclamation mark after the one that counts::

    3+7=10,10*8=80;3*8=24,24+7=31!

A step takes two of the numbers that are left and puts its result among them; ``+``, ``*``, and
``-`` where nothing falls below 0. An attempt uses every number once. How many attempts to write is
the player's choice, so that length is something to learn: to give up early is to be wrong, to try
for ever is to meet the limit.

The games of the corpus are played by a **planted** player. It guesses, and finishes an attempt well
with a given chance; it gives up after a failed attempt with another, and then claims what is not
so; and it only ever goes on with its last result. A game of four numbers that wants two results
side by side, such as ``(9-1)*(2+3)``, is beyond anything that it wrote: whether reinforcement
learning finds that is the question of sharpening and discovery.
"""

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Literal, Protocol

from nbkit._inputs import check_choice, check_number
from nbkit.rewards.compose import Composed
from nbkit.text.piece_vocabulary import PieceVocabulary, longest_first

HIGHEST, LARGEST = 12, 200  # of the given numbers, and of all results
TARGETS = (10, 99)
_TOKENS = ("<pad>", "<eos>", *" >:+-*=,;!", *map(str, range(LARGEST + 1)))
PIECE = longest_first(_TOKENS)
STEP = re.compile(r"(0|[1-9]\d*)([-+*])(0|[1-9]\d*)=(0|[1-9]\d*)")
Shape = Literal["chain", "pairs"]


class CountdownVocabulary(PieceVocabulary):
    """213 tokens: PAD 0, EOS 1 (BOS too), ten signs, and the numbers 0 to 200, one token each."""

    tokens = _TOKENS
    pattern = PIECE


@dataclass(frozen=True)
class Game:
    """A problem: three or four numbers from 1 to 12, and what they are to make."""

    numbers: tuple[int, ...]
    target: int

    @property
    def prompt(self) -> str:
        """What the model reads."""
        return f"{' '.join(map(str, self.numbers))}>{self.target}:"


class Answered(Protocol):
    """What the reward reads of a completion; ``scoring.Completion`` has it."""

    @property
    def text(self) -> str:
        """Up to the EOS."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether it met the limit."""
        ...


def results(first: int, second: int) -> dict[str, int]:
    """What two numbers make, by the text of the step up to its equals sign."""
    high, low = max(first, second), min(first, second)
    made = {f"{first}+{second}": first + second, f"{first}*{second}": first * second}
    made[f"{high}-{low}"] = high - low
    return {text: value for text, value in made.items() if value <= LARGEST}


@cache
def reachable(numbers: tuple[int, ...], *, chain: bool) -> frozenset[int]:
    """All that the sorted numbers can make.

    Args:
        numbers: sorted, all to be used once.
        chain: only by steps that go on with the last result.

    """
    if len(numbers) == 1:
        return frozenset(numbers)
    made: set[int] = set()
    for i, j in combinations(range(len(numbers)), 2):
        rest = [numbers[k] for k in range(len(numbers)) if k not in (i, j)]
        for value in results(numbers[i], numbers[j]).values():
            if chain:
                made |= _continued(value, tuple(rest))
            else:
                made |= reachable(tuple(sorted([*rest, value])), chain=False)
    return frozenset(made)


@cache
def _continued(value: int, rest: tuple[int, ...]) -> frozenset[int]:
    """All that can be made from a result and the other numbers, one of them a step."""
    if not rest:
        return frozenset([value])
    made: set[int] = set()
    for i, number in enumerate(rest):
        for following in results(value, number).values():
            made |= _continued(following, rest[:i] + rest[i + 1 :])
    return frozenset(made)


def targets(numbers: Sequence[int], shape: Shape) -> list[int]:
    """The targets that a chain reaches, or those that only two results side by side do."""
    key = tuple(sorted(numbers))
    chained = reachable(key, chain=True)
    found = chained if shape == "chain" else reachable(key, chain=False) - chained
    return [target for target in sorted(found) if TARGETS[0] <= target <= TARGETS[1]]


def draw_games(
    count: int,
    *,
    seed: int,
    numbers: tuple[int, int] = (3, 4),
    shape: Shape = "chain",
    held_out: bool = False,
    distinct: bool = True,
) -> list[Game]:
    """Draw games that can be won; how many numbers they have is equally likely.

    Each game belongs to one side for ever: one in ten is held out, by a checksum of its sorted
    numbers and its target. So no seed can mix the sides.

    Args:
        count: how many.
        seed: of the draw.
        numbers: fewest and most numbers of a game, 3 or 4.
        shape: "chain", or "pairs": games that no chain wins. They have four numbers.
        held_out: from the held-out tenth, else from the rest.
        distinct: no game twice.

    Raises:
        ValueError: a count below 1, numbers outside 3 to 4, "pairs" with fewer than four.

    """
    check_number("count", count, 1)
    check_choice("shape", shape, ("chain", "pairs"))
    low, high = numbers
    if not 3 <= low <= high <= 4:
        raise ValueError(f"numbers must be two of 3 and 4, the smaller first; got {numbers}")
    if shape == "pairs" and low < 4:
        raise ValueError("shape 'pairs' wants games of four numbers: set numbers to (4, 4)")
    source = random.Random(f"games {seed}")
    games: list[Game] = []
    seen: set[Game] = set()
    while len(games) < count:
        given = tuple(source.randint(1, HIGHEST) for _ in range(source.randint(low, high)))
        possible = targets(given, shape)
        if not possible:
            continue
        game = Game(given, source.choice(possible))
        if is_held_out(game) != held_out or (distinct and game in seen):
            continue
        seen.add(game)
        games.append(game)
    return games


def is_held_out(game: Game) -> bool:
    """Whether a game belongs to the held-out tenth."""
    return zlib.crc32(repr((sorted(game.numbers), game.target)).encode()) % 10 == 0


@dataclass(frozen=True)
class Player:
    """Who wrote the corpus.

    Attributes:
        insight: the chance that an attempt is finished well where its last step can be.
        patience: the chance of a further attempt after one that failed; else it is claimed.
        slip: the chance that a result is wrong by one.
        attempts: the most in a completion; the last one is claimed, whatever it made.

    """

    insight: float = 0.3
    patience: float = 0.75
    slip: float = 0.02
    attempts: int = 8

    def __post_init__(self) -> None:
        for name in ("insight", "patience", "slip"):
            check_number(name, getattr(self, name), 0.0, 1.0)
        check_number("attempts", self.attempts, 1)

    def play(self, game: Game, source: random.Random) -> str:
        """Write a completion, without EOS."""
        text = ""
        for number in range(self.attempts):
            steps, made = self._attempt(game, source)
            last = number + 1 == self.attempts
            claimed = made == game.target or last or source.random() >= self.patience
            text += steps + ("!" if claimed else ";")
            if claimed:
                break
        return text

    def _attempt(self, game: Game, source: random.Random) -> tuple[str, int]:
        left = list(game.numbers)
        source.shuffle(left)
        value, steps = left.pop(), []
        while left:
            choices = results(value, left.pop())
            step = source.choice(list(choices))
            if not left and source.random() < self.insight:
                good = [text for text, made in choices.items() if made == game.target]
                step = good[0] if good else step
            value = choices[step]
            if source.random() < self.slip:
                value = min(LARGEST, max(0, value + source.choice((-1, 1))))
            steps.append(f"{step}={value}")
        return ",".join(steps), value


def corpus(
    count: int, *, seed: int, player: Player | None = None, numbers: tuple[int, int] = (3, 4)
) -> list[tuple[Game, str]]:
    """Games of the training side with the completions of a player.

    Args:
        count: how many.
        seed: of games and play.
        player: who writes; None: the one of the defaults.
        numbers: fewest and most numbers of a game.

    """
    player, source = player or Player(), random.Random(f"play {seed}")
    games = draw_games(count, seed=seed, numbers=numbers, distinct=False)
    return [(game, player.play(game, source)) for game in games]


def attempts_of(completion: str) -> list[str]:
    """The attempts of a completion, the one that counts last."""
    return completion.removesuffix("!").split(";")


def is_right(game: Game, attempt: str) -> bool:
    """Whether every step is allowed and rightly computed, all numbers are used, target made."""
    left, value = list(game.numbers), None
    for text in attempt.split(","):
        step = STEP.fullmatch(text)
        if step is None:
            return False
        first, second, value = int(step[1]), int(step[3]), int(step[4])
        for number in (first, second):
            if number not in left:
                return False
            left.remove(number)
        if results(first, second).get(f"{first}{step[2]}{second}") != value:
            return False
        left.append(value)
    return left == [game.target] and value == game.target


def correct(game: Game, completion: str) -> float:
    """Return 1.0 if the completion ends in a claim, and what it claims is right; else 0.0."""
    if not completion.endswith("!"):
        return 0.0
    return float(is_right(game, attempts_of(completion)[-1]))


def game_reward(games: Sequence[Game], completions: Sequence[Answered]) -> list[Composed]:
    """1 for a right claim that an EOS ends, else 0; the number of attempts is on record."""
    rewards = []
    for game, completion in zip(games, completions, strict=True):
        right = float(not completion.truncated) * correct(game, completion.text)
        tried = float(len(attempts_of(completion.text)))
        rewards.append(Composed(right, {"correct": right, "attempts": tried}))
    return rewards
