"""What is paid and what was meant: rewards that are wrong on purpose keep the truth on record."""

import pytest

from nbkit.envs.arithmetic import Sum, guess, solution
from nbkit.trainers.scoring import Completion
from studies._flawed_rewards import NoisyVerifier, PartMarks, RandomReward, careless

pytestmark = pytest.mark.chapter(23)

PROBLEM = Sum((12, 34, 56))
RIGHT, WRONG = solution(PROBLEM), solution(PROBLEM, forget_carry=True)


def scored(reward, text, *, truncated=False, length=30):
    return reward([PROBLEM], [Completion(text, length, truncated)])[0]


def many(reward, text, count=4000):
    done = reward([PROBLEM] * count, [Completion(text, 30, False)] * count)
    assert {made.parts["correct"] for made in done} == {float(text == RIGHT)}
    return sum(made.total for made in done) / count


def test_verdicts_go_wrong_at_the_given_rates():
    both = NoisyVerifier(0.1, 0.3, seed=1)
    assert many(both, WRONG) == pytest.approx(0.1, abs=0.02)
    assert many(both, RIGHT) == pytest.approx(0.7, abs=0.03)
    assert many(NoisyVerifier(), RIGHT) == 1.0 and many(NoisyVerifier(), WRONG) == 0.0
    texts = [Completion(WRONG, 30, False)] * 50
    runs = [[r.total for r in NoisyVerifier(0.5, seed=s)([PROBLEM] * 50, texts)] for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_a_coin_knows_nothing():
    assert many(RandomReward(0.5, 3), RIGHT) == pytest.approx(0.5, abs=0.03)
    assert many(RandomReward(0.2, 3), WRONG) == pytest.approx(0.2, abs=0.03)


def test_a_careless_verifier_takes_the_forgotten_carry_and_no_other_error():
    assert scored(careless, RIGHT).total == 1.0
    slip = scored(careless, WRONG)
    assert slip.total == 1.0 and slip.parts["correct"] == 0.0
    assert scored(careless, WRONG, truncated=True).total == 0.0
    assert scored(careless, WRONG.replace("92<", "93<")).total == 0.0
    assert scored(careless, "92").total == 0.0


def test_part_marks_by_hand():
    near = PartMarks("near", 1.0)
    assert scored(near, RIGHT).total == 2.0
    assert scored(near, WRONG).total == pytest.approx(1 - 10 / 102)
    assert scored(near, guess(PROBLEM, 4)).total == pytest.approx(1 - 2 / 102)  # 104
    assert scored(near, "<think>1</think><answer>900</answer>").total == 0.0
    assert scored(near, WRONG, truncated=True).total == 0.0
    brief = PartMarks("brevity", 0.5, limit=60)
    assert scored(brief, WRONG).total == 0.25 and scored(brief, RIGHT).total == 1.25
    assert scored(brief, "92").total == 0.0  # the form first
    work = PartMarks("work", 2.0, limit=60)
    assert scored(work, WRONG).total == 1.0 and scored(work, WRONG, length=90).total == 2.0
    form = PartMarks("form", 1.0, right=0.0)
    assert scored(form, "<think></think>").total == 0.5 and scored(form, RIGHT).total == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: NoisyVerifier(1.5),
        lambda: NoisyVerifier(0.0, -0.1),
        lambda: RandomReward(2.0),
        lambda: PartMarks("style", 1.0),
        lambda: PartMarks("near", -1.0),
    ],
)
def test_settings_that_do_not_fit(make):
    with pytest.raises(ValueError, match=r"false_positives|false_negatives|chance|kind|weight"):
        make()
