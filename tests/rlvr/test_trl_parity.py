"""Against the installed TRL: the loss of a batch, its gradient, and the advantages.

The same Qwen2, read from one folder by both; the same tokens, masks, old and reference
log-probabilities. TRL's `_compute_loss` is private, so its version is pinned exactly.
"""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("trl")
pytestmark = [pytest.mark.slow, pytest.mark.chapter(24)]

from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402
from trl import GRPOConfig as TrlConfig  # noqa: E402
from trl import GRPOTrainer as TrlTrainer  # noqa: E402

from bookkit.conformance.adapters.trl import scored_advantages  # noqa: E402
from nbkit.trainers.grpo.batch import advantages  # noqa: E402
from nbkit.trainers.grpo.update import accumulate, completion_logprobs  # noqa: E402
from nbkit.trainers.grpo.variants import variant  # noqa: E402
from tests.rlvr.small import VOCABULARY, alone, hand_made, model  # noqa: E402

LIMIT, TEMPERATURE = 11, 0.8
# loss type and level of TRL -> our variant and what is changed on top
SAME = {
    ("grpo", "token"): ("grpo", {}),
    ("bnpo", "token"): ("grpo", {"aggregation": "token-mean"}),
    ("dr_grpo", "token"): ("dr_grpo", {}),
    ("dapo", "token"): ("dapo", {}),
    ("luspo", "token"): ("grpo", {"aggregation": "seq-mean-token-sum"}),
    ("cispo", "token"): ("cispo", {}),
    ("grpo", "sequence"): ("gspo", {}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy")
    model(width=32, layers=2).save_pretrained(path)
    words = {word: number for number, word in enumerate(VOCABULARY.tokens)}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    ).save_pretrained(path)
    return path


def trl_trainer(folder, **settings):
    return TrlTrainer(
        model=str(folder),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=TrlConfig(
            output_dir=str(folder / "run"),
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=LIMIT,
            temperature=TEMPERATURE,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            model_init_kwargs={"dtype": "float32"},
            **settings,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["2 3"] * 8}),
        processing_class=PreTrainedTokenizerFast.from_pretrained(folder),
    )


CASES = [
    (*pair, kl)
    for pair in SAME
    for kl in ("none", "k3", "k3 by ratio")
    # A KL times the sequence's ratio: TRL lets each token's KL push all tokens, we only its own.
    if (pair[1], kl) != ("sequence", "k3 by ratio")
]


@pytest.mark.parametrize(("loss_type", "level", "kl"), CASES)
def test_loss_and_gradient(folder, loss_type, level, kl):
    name, changes = SAME[loss_type, level]
    beta = 0.0 if kl == "none" else 0.04
    by_ratio = kl == "k3 by ratio"
    ours = variant(
        name,
        **{
            **changes,
            "group_size": 4,
            "max_new_tokens": LIMIT,
            "temperature": TEMPERATURE,
            "kl_coefficient": beta,
            "kl_ratio": by_ratio,
        },
    )
    low = 0.2 if ours.clip_low is None else ours.clip_low
    high = 1 + ours.clip_high if loss_type == "cispo" else ours.clip_high  # TRL's is absolute
    trainer = trl_trainer(
        folder,
        loss_type=loss_type,
        importance_sampling_level=level,
        beta=beta,
        epsilon=low,
        epsilon_high=high,
        use_bias_correction_kl=by_ratio,
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()

    batch = hand_made()
    net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        near = completion_logprobs(net, batch, TEMPERATURE)
    noise = torch.randn(near.shape, generator=torch.Generator().manual_seed(2))
    if level == "sequence":
        noise = noise * 0.003  # some of the ratios inside the narrow clip, some outside
    reference = near + 0.3 * torch.randn(near.shape, generator=torch.Generator().manual_seed(3))
    batch = replace(
        batch,
        logprobs=(near + 0.3 * noise) * batch.mask,
        ref_logprobs=reference * batch.mask,
        advantages=batch.advantages[:, :1] * batch.mask,
    )
    net.zero_grad()
    result = accumulate(alone(net), batch, None, ours)
    assert 0 < result["clip_fraction"] < 1 or loss_type == "cispo"

    prompt = batch.ids.shape[1] - batch.mask.shape[1]
    theirs = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": batch.ids[:, :prompt],
            "prompt_mask": batch.attention[:, :prompt].long(),
            "completion_ids": batch.ids[:, prompt:],
            "completion_mask": batch.mask.long(),
            "advantages": batch.advantages[:, 0],
            "old_per_token_logps": batch.logprobs,
            "ref_per_token_logps": batch.ref_logprobs,
            "num_items_in_batch": batch.mask.sum(),
        },
    )
    assert result["loss"] == pytest.approx(theirs.item(), abs=1e-5)
    trainer.model.zero_grad()
    theirs.backward()
    for (title, mine), other in zip(
        net.named_parameters(), trainer.model.parameters(), strict=True
    ):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-5, rtol=0, msg=title)
    assert max(p.grad.abs().max() for p in net.parameters()) > 1e-3


@pytest.mark.parametrize(("name", "kind"), [("grpo", "GRPO"), ("rloo", "RLOO")])
def test_advantages(name, kind):
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.2, 0.2, 0.2, 0.2, 1.0, 0.0, 0.0, 0.0])
    settings = variant(name, group_size=4, kl_coefficient=0.0)
    mask = torch.ones(12, 1, dtype=torch.bool)
    ours = advantages(rewards.double(), mask, settings)[:, 0]
    torch.testing.assert_close(ours, scored_advantages(kind, rewards, 4), atol=1e-5, rtol=0)
