"""Build 21: its languages, what the judge counts, and that what it measures is exact."""

import itertools
import math
import random

import numpy as np
import pytest
import torch

from bookkit.builds import assistant
from bookkit.builds.assistant import Helpful, answers, compared
from bookkit.builds.enumerated import ANSWER, EOS, SIZE, Exact, Tiny, best
from bookkit.builds.registry import get_build
from bookkit.builds.session import Stopped
from bookkit.builds.supplies import Supplies
from bookkit.builds.tilting import drift, foreign
from nbkit.envs.helpful import gold
from nbkit.runs.results import read_result
from nbkit.text.policies import LSTMPolicy

PROMPTS = np.array([[0, 1, 3], [1, 4, 5]])


def supplies(**changes) -> Supplies:
    pairs = np.array([[0, 1, 3, 4, 2, 0], [1, 4, 5, 2, 0, 0]])
    parts = {
        "prompts": PROMPTS,
        "chosen": pairs,
        "rejected": pairs[::-1].copy(),
        "ids": (0, 1, 2),
        "size": 7,
        "longest": 3,
        "tokens": 8,
        "draw": random.Random(1),
        "judgement": lambda prompts, found: [float((row == 4).sum()) for row in found],
    }
    return Supplies(**{**parts, **changes})


def test_tokens_and_comparisons_are_counted_where_they_are_answered() -> None:
    held = supplies()
    ids = np.array([[0, 1, 3, 4, 2, 4], [1, 4, 5, 4, 4, 4]])
    held.answer("sampled", {}, {"ids": ids})
    assert held.used == 2 + 3 and held.describe()["tokens_left"] == 3
    assert held.means == [(2.0, 2.5)]
    with pytest.raises(Stopped, match="more than its 8 tokens"):
        held.answer("sampled", {}, {"ids": ids})
    told, pairs = held.answer("comparisons", {"count": 1}, {})
    assert told == {"comparisons_left": 1}
    assert pairs["chosen_mask"].tolist() == [[False, True, True, True, True, False]]
    with pytest.raises(Stopped, match="more than its 2 comparisons"):
        held.answer("comparisons", {"count": 2}, {})
    _, drawn = held.answer("prompts", {"count": 50}, {})
    assert {tuple(row) for row in drawn["ids"].tolist()} == {tuple(row) for row in PROMPTS.tolist()}
    assert (drawn["mask"] == (drawn["ids"] != 0)).all()


@pytest.mark.parametrize(
    ("kind", "data", "arrays", "words"),
    [
        ("sampled", {}, {}, "wants ids"),
        ("sampled", {}, {"ids": np.array([[0, 1, 3]])}, "wants ids"),
        ("sampled", {}, {"ids": np.array([[0, 1, 3, 4, 4, 4, 4]])}, "T at most 3"),
        ("sampled", {}, {"ids": np.array([[0, 1, 3, 9]])}, "from 0 to 6"),
        ("sampled", {}, {"ids": np.array([[3, 1, 3, 4]])}, "prompts that `world.prompts` has"),
        ("prompts", {"count": 0}, {}, "a number from 1"),
        ("comparisons", {"count": 1.5}, {}, "a number from 1"),
        ("score", {}, {}, "which the world does not answer"),
        ("gold", {}, {}, "which the world does not answer"),
    ],
)
def test_what_does_not_fit_is_refused(kind, data, arrays, words: str) -> None:
    with pytest.raises(Stopped, match=words):
        supplies().answer(kind, data, arrays)


def test_batches_that_are_no_samples_are_seen() -> None:
    held = supplies(tokens=1000)
    ids = np.repeat(np.array([[0, 1, 3, 4, 2]]), 4, axis=0)
    for _ in range(3):
        held.answer("sampled", {}, {"ids": ids})
    assert (held.alike, held.again) == (3, 2)


def test_masks_are_looked_at_where_the_judge_scores() -> None:
    held = supplies(scores=lambda prompts, found: [1.0] * len(found))
    ids = np.array([[0, 1, 3, 4, 2, 0], [1, 4, 5, 0, 4, 2]])  # a pad can be a word of an answer
    right = held.mask_of(ids)
    assert right.tolist() == [[False, True, True, True, True, False], [True] * 6]
    held.answer("score", {}, {"ids": ids, "mask": right})
    assert (held.beyond, held.short) == (0, 0)
    held.answer("score", {}, {"ids": ids, "mask": np.ones_like(right)})
    assert (held.beyond, held.short) == (1, 0)
    held.answer("score", {}, {"ids": ids, "mask": ids != 0})
    assert (held.beyond, held.short) == (1, 1)


def test_all_answers_are_listed_and_their_chances_add_up() -> None:
    tiny = Tiny.drawn(random.Random(3))
    ids, mask = tiny.every_answer()
    assert len({tuple(row) for row in ids.tolist()}) == len(ids)
    assert len(ids) == sum((SIZE - 1) ** k for k in range(ANSWER)) + (SIZE - 1) ** ANSWER
    chances = tiny.logprobs(tiny.policy).exp()
    assert torch.allclose(chances.sum(1), torch.ones(2, dtype=torch.float64), atol=1e-5)
    row = int(torch.randint(len(ids), (1,)))
    logp, state = 0.0, None
    for token in tiny.prompts[1].tolist():
        logits, state = tiny.policy.step(torch.tensor([token]), state)
    for token in ids[row][mask[row]].tolist():
        logp += logits.log_softmax(-1)[0, token].item()
        logits, state = tiny.policy.step(torch.tensor([token]), state)
    assert math.exp(logp) == pytest.approx(chances[1, row].item(), rel=1e-3)
    assert Tiny.drawn(random.Random(4)).order.tolist() != tiny.order.tolist()


def test_no_policy_is_above_the_best() -> None:
    tiny, beta = Tiny.drawn(random.Random(5)), 0.4
    reference = tiny.logprobs(tiny.policy)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(reference.shape, generator=generator, dtype=torch.float64)
    top = Exact.of(best(reference, scores, beta), reference, scores, beta)
    partition = beta * (reference + scores / beta).logsumexp(1)
    assert torch.allclose(top.by_prompt, partition)
    for _ in range(20):
        noise = torch.randn(reference.shape, generator=generator, dtype=torch.float64)
        other = (best(reference, scores, beta) + 0.3 * noise).log_softmax(1)
        assert (Exact.of(other, reference, scores, beta).by_prompt < top.by_prompt).all()
    start = Exact.of(reference, reference, scores, beta)
    assert start.kl == pytest.approx(0.0, abs=1e-9)


def test_words_and_questions_are_drawn_anew_and_mean_the_same() -> None:
    first, second = (Helpful.drawn(random.Random(seed)) for seed in (1, 2))
    assert first.words.tokens != second.words.tokens
    assert set(first.hidden) != set(second.hidden) and not set(first.hidden) & set(first.asked)
    answer = "gladly , boil the water and pour the milk . enjoy ."
    question = first.hidden[0]
    for world in (first, second):
        ids = torch.tensor([[*world.words.encode(answer), world.words.eos_id]])
        assert world.golds([question], ids) == [gold(question, answer)]
        assert world.golds([question], ids[:, :-1]) == [gold(question, answer, truncated=True)]
        prompt = world.prompts([question])[0]
        assert len(prompt) == world.width
        assert world.words.decode(prompt.tolist()).endswith("? <assistant>")


def small(words: int, seed: int) -> LSTMPolicy:
    torch.manual_seed(seed)
    return LSTMPolicy(words, width=8).requires_grad_(False)


def test_the_kl_of_answers_is_that_of_all_answers() -> None:
    tiny = Tiny.drawn(random.Random(6))
    other = LSTMPolicy(SIZE, width=24)
    other.load_state_dict(tiny.policy.state_dict())
    with torch.no_grad():
        other.head.bias[tiny.order[4]] += 1.5
    wanted = Exact.of(
        tiny.logprobs(other), tiny.logprobs(tiny.policy), torch.zeros(1, dtype=torch.float64), 1.0
    )
    ends = tiny.ids[EOS], tiny.ids[0]
    prompts = tiny.prompts.repeat(2000, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assistant, "ANSWER", ANSWER)
        found = answers(other, tiny.policy, prompts, ends, torch.Generator().manual_seed(1))
    mean, error = assistant.rows_of(found.kl.tolist())
    assert abs(mean - wanted.kl) < 4 * error and error < 0.1 * wanted.kl


def test_labels_follow_the_hidden_judgement() -> None:
    world = Helpful.drawn(random.Random(7))
    policy = small(len(world.words), 7)
    pairs = compared(world, policy, world.asked, 200, random.Random(8))
    by_prompt = {tuple(world.prompt(question)): question for question in world.asked}
    scores = []
    for part in (pairs.chosen, pairs.rejected):
        asked = [by_prompt[tuple(row)] for row in part[:, : world.width].tolist()]
        scores.append(torch.tensor(world.golds(asked, part[:, world.width :])))
    assert ((scores[0] > scores[1]) == pairs.agreed).all()
    assert 0.6 < pairs.agreed.double().mean() < 1.0  # labels hold noise
    assert (scores[0] != scores[1]).all()


def test_answers_of_another_policy_are_told_by_their_chances() -> None:
    tiny = Tiny.drawn(random.Random(9))
    trained = LSTMPolicy(SIZE, width=24)
    trained.load_state_dict(tiny.policy.state_dict())
    with torch.no_grad():
        trained.head.bias[tiny.order[3]] += 3.0
    logp, base = tiny.logprobs(trained), tiny.logprobs(tiny.policy)
    kl = Exact.of(logp, base, torch.zeros(1, dtype=torch.float64), 1.0).kl
    found, amiss = {}, {}
    for name, policy in (("own", trained), ("first", tiny.policy)):
        held = supplies(prompts=tiny.prompts.numpy(), ids=tiny.ids, tokens=10**6, longest=ANSWER)
        chances = tiny.logprobs(policy).exp()
        ids, _ = tiny.every_answer()
        rows = torch.multinomial(chances, 500, replacement=True)
        told = [
            torch.cat([prompt.expand(500, -1), ids[part]], 1)
            for prompt, part in zip(tiny.prompts, rows, strict=True)
        ]
        held.answer("sampled", {}, {"ids": torch.cat(told).numpy()})
        held.means *= 5
        found[name] = drift(trained, tiny.policy, held)
        amiss[name] = foreign(trained, tiny.policy, held, kl)
    assert amiss["own"] is None and "are not the policy's own" in (amiss["first"] or "")
    assert found["own"] == pytest.approx(kl, rel=0.2)
    assert found["first"] < 0.0


def test_sums_over_answers_need_no_sampling() -> None:
    """The listed answers are those that a walk over the tokens gives."""
    tiny = Tiny.drawn(random.Random(10))
    pad_id, _, eos_id = tiny.ids
    walked = set()
    for row in itertools.product(range(SIZE), repeat=ANSWER):
        end = row.index(eos_id) + 1 if eos_id in row else ANSWER
        walked.add((*row[:end], *[pad_id] * (ANSWER - end)))
    assert walked == {tuple(row) for row in tiny.every_answer()[0].tolist()}


def test_the_curves_beside_are_those_of_the_benchmark() -> None:
    stored = read_result("benchmarks/results/rlhf.json")["runs"]
    ours, theirs = (result.curves()[0] for result in get_build(21).stages[-1].results)
    for curve, runs in ((ours, stored["nbkit"]), (theirs, stored["trl"])):
        rows = runs[0]["curve"]
        assert [y for _, y in curve.points] == [row["gold"] for row in rows]
        assert [x for x, _ in curve.points] == [64 * row["update"] for row in rows]
