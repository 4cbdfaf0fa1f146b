"""Whole runs: resume to the bit, micro-batches, what is refused, and learning."""

import math

import pytest
import torch

from nbkit.data.encode import EncodedPair
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.dpo.evaluation import judge
from tests.dpo.small import BOS, EOS, PAD, config, model, pairs, trainer, weights

pytestmark = pytest.mark.chapter(22)


@pytest.mark.parametrize("settings", [{}, {"precompute": False}, {"micro_pairs": 2}])
def test_a_resumed_run_equals_an_unbroken_one_to_the_bit(settings, tmp_path):
    settings = config(**settings)
    whole = trainer(settings, reference=model())
    whole.run(progress=False)
    first = trainer(settings, reference=model())
    for _ in range(3):
        first.step()
    save(tmp_path / "run.pt", first)
    torch.manual_seed(99)  # nothing may hang on the global generator
    second = trainer(settings, reference=model())
    second.generator.manual_seed(12345)
    second.run(progress=False, checkpoint=tmp_path / "run.pt")
    assert torch.equal(weights(whole), weights(second))
    assert not torch.equal(weights(whole), weights(first))
    timeless = [
        [{k: v for k, v in m.items() if not k.startswith("seconds")} for m in run.history]
        for run in (whole, second)
    ]
    assert timeless[0] == timeless[1] and len(timeless[0]) == 6


def test_a_run_resumed_from_its_own_weights_keeps_the_first_reference(tmp_path):
    """A restart loads moved weights; what it would score then is not the reference."""
    first = trainer()
    for _ in range(3):
        first.step()
    save(tmp_path / "run.pt", first)
    moved = trainer(model=first.model)
    assert not torch.equal(moved.reference_scores.chosen, first.reference_scores.chosen)
    resume(tmp_path / "run.pt", moved)
    assert torch.equal(moved.reference_scores.chosen, first.reference_scores.chosen)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    save(path, trainer())
    with pytest.raises(ValueError, match="another configuration: beta, kind"):
        resume(path, trainer(config(beta=0.5, kind="ipo")))
    with pytest.raises(ValueError, match="12 pairs; now there are 5"):
        resume(path, trainer(pairs=pairs(5)))


def test_micro_batches_give_the_same_gradient():
    whole = trainer(config(batch_size=8, sft_coefficient=0.3))
    parts = trainer(config(batch_size=8, sft_coefficient=0.3, micro_pairs=3))
    rows = list(range(8))
    assert whole.accumulate(rows)[0] == pytest.approx(parts.accumulate(rows)[0], abs=1e-6)
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-4)


def test_each_pair_once_an_epoch():
    run = trainer(config(steps=3, batch_size=4))
    taken = []
    inner = run.stream.take
    run.stream.take = lambda n: taken.append(inner(n)) or taken[-1]
    run.run(progress=False)
    assert sorted(row for rows in taken for row in rows) == list(range(12))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]),
        ("cosine", [0.5, 1.0, 1.0, 0.853553, 0.5, 0.146447]),
    ],
)
def test_schedules(schedule, expected):
    run = trainer(config(steps=6, warmup=2, learning_rate=1.0, schedule=schedule))
    assert [run.learning_rate(n) for n in range(6)] == pytest.approx(expected, abs=1e-6)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"pairs\[0\]: both answers are the same"):
        trainer(pairs=[EncodedPair([BOS], [4, EOS], [4, EOS])])
    with pytest.raises(ValueError, match=r"pairs\[1\]: its rejected has no token"):
        trainer(pairs=[*pairs(1), EncodedPair([BOS], [4, EOS], [])])
    with pytest.raises(ValueError, match="empty list"):
        trainer(pairs=[])
    net = model()
    for reference in (None, net):
        with pytest.raises(ValueError, match="a model of its own"):
            trainer(config(precompute=False), model=net, reference=reference)
    with pytest.raises(ValueError, match="frozen"):
        trainer(model=model().requires_grad_(False))
    for given in ({"model": model()}, {"reference": model()}):
        (noisy,) = given.values()
        noisy.config.attention_dropout = 0.1
        noisy.train()
        with pytest.raises(ValueError, match="dropout is on"):
            trainer(**given)
    with pytest.raises(ValueError, match="kind 'ipo' has none"):
        config(kind="ipo", label_smoothing=0.1)
    with pytest.raises(ValueError, match="hold no information"):
        config(kind="robust", label_smoothing=0.5)
    with pytest.raises(ValueError, match="kind must be"):
        config(kind="sigmoud")


def test_a_gradient_that_is_not_finite_takes_no_step():
    run = trainer()
    with torch.no_grad():
        run.model.lm_head.weight[3] = torch.nan
    before = weights(run)
    metrics = run.step()
    assert metrics["skipped"] == 1 and math.isnan(metrics["gradient_norm"])
    assert len(run.refused["chosen_ids"]) == metrics["pairs"]
    assert torch.equal(before.nan_to_num(), weights(run).nan_to_num())


def test_it_learns_a_preference_and_the_samples_show_it():
    """Answers with more 5s are preferred: the policy writes more of them, at a finite KL."""
    g = torch.Generator().manual_seed(3)

    def answer():
        return [*torch.randint(3, 9, (4,), generator=g).tolist(), EOS]

    data = []
    while len(data) < 128:
        a, b = sorted((answer(), answer()), key=lambda x: -x.count(5))
        if a.count(5) > b.count(5):
            data.append(EncodedPair([BOS, 20], a, b))
    net, reference = model(width=32, heads=4), model(width=32, heads=4)
    run = trainer(
        config(steps=40, batch_size=32, learning_rate=5e-3), model=net, reference=reference,
        pairs=data,
    )  # fmt: skip
    run.run(progress=False)
    assert run.history[-1]["accuracy"] > 0.9

    def look(policy):
        return judge(
            policy, reference, [[BOS, 20]] * 200, max_new_tokens=6, eos_id=EOS, pad_id=PAD,
            seed=1, score=lambda number, tokens, ended: float(tokens.count(5)),
        ).summary()  # fmt: skip

    before, after = look(reference), look(net)
    assert before["kl"] == pytest.approx(0.0, abs=1e-5)
    assert after["gold"] > before["gold"] + 1.0 and 0.5 < after["kl"] < 50


def test_the_divergence_is_that_of_whole_answers():
    """Against the enumeration of all answers of at most two tokens."""
    first, second = model(seed=1), model(seed=2)
    prompt, log_p, log_q = [BOS, 4], {}, {}
    for net, table in ((first, log_p), (second, log_q)):
        start = net(input_ids=torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
        for a in range(24):
            if a == EOS:
                table[(a,)] = start[a].item()
                continue
            after = net(input_ids=torch.tensor([[*prompt, a]])).logits[0, -1].log_softmax(-1)
            for b in range(24):
                table[(a, b)] = start[a].item() + after[b].item()
    exact = sum(torch.tensor(p).exp().item() * (p - log_q[key]) for key, p in log_p.items())
    made = judge(
        first, second, [prompt], max_new_tokens=2, eos_id=EOS, pad_id=PAD, seed=5, group_size=800
    )
    kl, error = made.summary()["kl"], made.summary()["kl_error"]
    assert abs(kl - exact) < 4 * error and error < 0.05 * exact
