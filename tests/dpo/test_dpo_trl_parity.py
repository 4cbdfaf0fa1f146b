"""Against the installed TRL: loss and gradient of one batch, for every kind that both have.

The same Qwen2, read from one folder by both, moved by the same noise, so that no margin is 0; the
reference is the folder as it stands. TRL's `_compute_loss` is private, so its version is pinned.
"""

import pytest
import torch

pytest.importorskip("trl")
pytestmark = [pytest.mark.slow, pytest.mark.chapter(22)]

from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402
from trl import DPOConfig as TrlConfig  # noqa: E402
from trl import DPOTrainer as TrlTrainer  # noqa: E402

from nbkit.trainers.dpo import DPOConfig, DPOTrainer  # noqa: E402
from tests.dpo.small import EOS, PAD, SIZE, generator, model, pairs  # noqa: E402

# name -> our settings, those of TRL
SAME = {
    "sigmoid": ({}, {"loss_type": "sigmoid"}),
    "hinge": ({"kind": "hinge"}, {"loss_type": "hinge"}),
    "robust": (
        {"kind": "robust", "label_smoothing": 0.1},
        {"loss_type": "robust", "label_smoothing": 0.1},
    ),
    "ipo": ({"kind": "ipo-average"}, {"loss_type": "ipo"}),
    "averaged": ({"kind": "sigmoid-average"}, {"loss_type": "sigmoid_norm"}),
    "with SFT": (
        {"sft_coefficient": 0.5},
        {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.5]},
    ),
}


def word(token):
    """A special token is cut out of longer words, so all have one length."""
    return f"w{token:02d}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy")
    model(width=32, layers=2, heads=4).save_pretrained(path)
    words = {word(number): number for number in range(SIZE)}
    inner = Tokenizer(models.WordLevel(words, unk_token=word(PAD)))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=word(PAD), eos_token=word(EOS)
    ).save_pretrained(path)
    return path


def text(ids):
    return " ".join(map(word, ids))


def moved(policy):
    g = generator(5)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=g)
    return policy


def trl_trainer(folder, data, **settings):
    rows = [
        # TRL appends the EOS; a blank in front, so that the prompt's ids are a prefix
        {"prompt": text(p.prompt_ids), "chosen": " " + text(p.chosen_ids[:-1]),
         "rejected": " " + text(p.rejected_ids[:-1])}
        for p in data
    ]  # fmt: skip
    return TrlTrainer(
        model=str(folder),
        args=TrlConfig(
            output_dir=str(folder / "run"),
            per_device_train_batch_size=len(data),
            beta=0.3,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            model_init_kwargs={"dtype": "float32"},
            **settings,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=PreTrainedTokenizerFast.from_pretrained(folder),
    )


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("micro_pairs", [None, 3])
def test_loss_and_gradient(folder, name, micro_pairs):
    ours, theirs = SAME[name]
    data = pairs(8)
    trainer = trl_trainer(folder, data, **theirs)
    inputs = trainer.data_collator([trainer.train_dataset[row] for row in range(len(data))])
    tokens = inputs["input_ids"][: len(data)]
    for row, pair in zip(tokens, data, strict=True):
        whole = [*pair.prompt_ids, *pair.chosen_ids]
        assert row[: len(whole)].tolist() == whole

    net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    frozen = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    settings = DPOConfig(beta=0.3, batch_size=8, micro_pairs=micro_pairs, **ours)
    run = DPOTrainer(
        moved(net), data, settings, reference=frozen, pad_id=PAD, generator=generator()
    )
    loss, policy, reference = run.accumulate(list(range(8)))
    assert (policy.chosen - reference.chosen).abs().min() > 1e-3

    moved(trainer.model)
    trainer.model.train()
    value = trainer._compute_loss(trainer.model, inputs, return_outputs=False)
    value.backward()
    assert loss == pytest.approx(value.item(), abs=1e-5)
    largest = 0.0
    for (title, mine), other in zip(
        net.named_parameters(), trainer.model.parameters(), strict=True
    ):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-5, rtol=1e-4, msg=title)
        largest = max(largest, other.grad.abs().max().item())
    assert largest > 1e-3
