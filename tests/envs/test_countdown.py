"""The numbers game: what wins, which games there are, and what its planted player cannot do."""

import itertools
import random
import re

import pytest

from nbkit.envs.countdown import (
    LARGEST,
    TARGETS,
    CountdownVocabulary,
    Game,
    Player,
    attempts_of,
    corpus,
    correct,
    draw_games,
    game_reward,
    is_held_out,
    is_right,
    reachable,
)
from nbkit.trainers.scoring import Completion

GAME = Game((3, 7, 8), 31)
PAIRS = Game((9, 1, 2, 3), 40)  # (9-1)*(2+3)


def by_strings(numbers: tuple[int, ...], chain: bool) -> set[int]:
    """All results, by trying every order of numbers and signs as Python's own expressions."""
    shapes = ["(({0}{a}{1}){b}{2})"] if len(numbers) == 3 else ["((({0}{a}{1}){b}{2}){c}{3})"]
    if len(numbers) == 4 and not chain:
        shapes.append("(({0}{a}{1}){b}({2}{c}{3}))")
    found = set()
    for order, signs in itertools.product(
        set(itertools.permutations(numbers)), itertools.product("+-*", repeat=3)
    ):
        for shape in shapes:
            text = shape.format(*order, a=signs[0], b=signs[1], c=signs[2])
            value = within(text)
            if value is not None:
                found.add(value)
    return found


def within(text: str) -> int | None:
    """The value of an expression; None if a part of it is too large."""
    inner = text[1:-1]
    if inner.isdigit():
        return int(inner)
    depth, cut = 0, None
    for place, sign in enumerate(inner):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign in "+-*" and place:
            cut = place
    assert cut is not None
    parts = [inner[:cut], inner[cut + 1 :]]
    values = [int(p) if p.isdigit() else within(p) for p in parts]
    if None in values:
        return None
    first, second = values
    value = {"+": first + second, "*": first * second, "-": abs(first - second)}[inner[cut]]
    return value if value <= LARGEST else None


@pytest.mark.parametrize("numbers", [(3, 7, 8), (1, 1, 12), (2, 3, 9, 11), (5, 5, 5, 1)])
@pytest.mark.parametrize("chain", [True, False])
def test_what_can_be_reached(numbers: tuple[int, ...], chain: bool) -> None:
    assert reachable(tuple(sorted(numbers)), chain=chain) == by_strings(numbers, chain)


def test_a_right_attempt() -> None:
    assert correct(GAME, "3*8=24,24+7=31!") == 1.0
    assert correct(GAME, "3+7=10,10*8=80;3*8=24,7+24=31!") == 1.0
    assert correct(PAIRS, "9-1=8,2+3=5,5*8=40!") == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "3*8=24,24+7=31",  # not claimed
        "3*8=24,24+7=31;",
        "3*8=24,24+7=31;3+7=10,10*8=80!",  # what is claimed is the last attempt
        "3*8=24,24+8=31!",  # a number twice
        "3*8=24!",  # a number left over
        "3*8=25,25+7=31!",  # wrongly computed
        "3*8=24,24+7=31,!",
        "3*8=24, 24+7=31!",
        "03*8=24,24+7=31!",
        "3*8=24,24+7=31!!",
        "31!",
        "!",
        "",
        "7-8=1,1*3=3!",
    ],
)
def test_what_earns_nothing(text: str) -> None:
    assert correct(GAME, text) == 0.0


def test_a_truncated_answer_earns_nothing_and_attempts_are_counted() -> None:
    texts = ["3*8=24,24+7=31!", "3+7=10,10*8=80;3*8=24,24+7=31!"]
    whole, cut = (
        Completion(text=text, length=1, truncated=cut)
        for text, cut in zip(texts, (False, True), strict=True)
    )
    first, second = game_reward([GAME, GAME], [whole, cut])
    assert (first.total, first.parts["attempts"]) == (1.0, 1.0)
    assert (second.total, second.parts["attempts"]) == (0.0, 2.0)


def test_sides_and_kinds() -> None:
    ours = draw_games(300, seed=1)
    held = draw_games(100, seed=1, held_out=True)
    assert len(set(ours)) == 300 and not set(ours) & set(held)
    assert all(is_held_out(game) for game in held) and not any(map(is_held_out, ours))
    assert {len(game.numbers) for game in ours} == {3, 4}
    assert all(game.target in reachable(tuple(sorted(game.numbers)), chain=True) for game in ours)
    assert all(TARGETS[0] <= game.target <= TARGETS[1] for game in ours)
    for game in draw_games(50, seed=2, numbers=(4, 4), shape="pairs"):
        key = tuple(sorted(game.numbers))
        assert game.target in reachable(key, chain=False) - reachable(key, chain=True)


def test_a_game_of_pairs_wants_four_numbers() -> None:
    with pytest.raises(ValueError, match="four numbers"):
        draw_games(3, seed=1, shape="pairs")
    with pytest.raises(ValueError, match="3 and 4"):
        draw_games(3, seed=1, numbers=(2, 4))


def test_the_player_knows_one_shape_only() -> None:
    player, source = Player(insight=1.0, patience=1.0, slip=0.0), random.Random(3)
    wins = 0
    for game in draw_games(60, seed=4, numbers=(4, 4)):
        text = player.play(game, source)
        for attempt in attempts_of(text):
            steps = attempt.split(",")
            results = [step.split("=")[1] for step in steps]
            for result, step in zip(results, steps[1:], strict=False):
                assert result in re.findall(r"\d+", step.split("=")[0])
        wins += correct(game, text)
    assert wins > 20
    lost = draw_games(40, seed=4, numbers=(4, 4), shape="pairs")
    assert not any(correct(game, player.play(game, source)) for game in lost)


def test_faults_of_the_player() -> None:
    games = draw_games(300, seed=5, numbers=(3, 3))

    def share(player: Player) -> float:
        source = random.Random(6)
        return sum(correct(game, player.play(game, source)) for game in games) / len(games)

    assert share(Player(patience=1.0)) > share(Player()) + 0.2
    assert share(Player(slip=0.3)) < share(Player()) - 0.05
    tries = [len(attempts_of(Player(patience=1.0).play(g, random.Random(7)))) for g in games]
    assert max(tries) == Player().attempts


def test_every_text_of_the_corpus_is_in_the_vocabulary() -> None:
    vocabulary = CountdownVocabulary()
    assert len(vocabulary) == 213
    for game, text in corpus(200, seed=8):
        for one in (game.prompt, text):
            assert vocabulary.decode(vocabulary.encode(one)) == one
    assert corpus(5, seed=8) == corpus(5, seed=8) != corpus(5, seed=9)


def test_an_attempt_is_judged_by_itself() -> None:
    assert is_right(GAME, "3*8=24,24+7=31") and not is_right(GAME, "3*8=24,24-7=17")
