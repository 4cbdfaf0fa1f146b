"""Against the installed TRL on a model: its log-probability helpers and its GRPO loss.

The losses on bare tensors are compared in tests/conformance/test_installed_libraries.py. Here a
small Qwen2 stands below, so that the shift of the logits, the temperature and the gradient of the
parameters take part.
"""

import pytest
import torch
from torch import Tensor

pytest.importorskip("trl")
pytestmark = pytest.mark.slow

from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402
from trl.trainer.utils import entropy_from_logits, selective_log_softmax  # noqa: E402

from nbkit.kl import kl_estimate  # noqa: E402
from nbkit.logprobs import entropy, next_token_logprobs, token_logprobs  # noqa: E402
from nbkit.losses import cispo_loss, ppo_clip_loss  # noqa: E402
from nbkit.masks import aggregate  # noqa: E402

VOCABULARY, PROMPT, COMPLETION = 40, 5, 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probability_helpers(dtype: torch.dtype, temperature: float) -> None:
    logits = (3 * torch.randn(4, 6, 300, dtype=torch.float64)).to(dtype).requires_grad_()
    tokens = torch.randint(0, 300, (4, 6))
    ours = token_logprobs(logits, tokens, temperature=temperature)
    theirs = selective_log_softmax(logits, tokens, temperature=temperature)
    # In bfloat16 TRL returns bfloat16: eight bits of a number of size 10.
    atol = {torch.float64: 1e-12, torch.float32: 5e-6, torch.bfloat16: 0.1}[dtype]
    torch.testing.assert_close(ours, theirs.to(ours.dtype), atol=atol, rtol=0)
    ours_h, theirs_h = entropy(logits), entropy_from_logits(logits)
    torch.testing.assert_close(ours_h, theirs_h.to(ours_h.dtype), atol=atol, rtol=0)
    if dtype != torch.bfloat16:
        for a, b in ((ours, theirs), (ours_h, theirs_h)):
            mine = torch.autograd.grad(a.sum(), logits)[0]
            other = torch.autograd.grad(b.sum(), logits)[0]
            torch.testing.assert_close(mine, other, atol=atol, rtol=0)


def tokenizer() -> PreTrainedTokenizerFast:
    words = {word: i for i, word in enumerate(["<pad>", "<eos>", *map(str, range(2, VOCABULARY))])}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def trainer_with(folder: str, **settings: object) -> GRPOTrainer:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
    )
    path = f"{folder}/model"
    Qwen2ForCausalLM(config).save_pretrained(path)  # beta > 0 loads its reference by name
    tokenizer().save_pretrained(path)
    return GRPOTrainer(
        model=path,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=COMPLETION,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            model_init_kwargs={"dtype": "float32"},
            **settings,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["2 3"] * 8}),
        processing_class=tokenizer(),
    )


def batch() -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(1)
    mask = torch.ones(4, COMPLETION, dtype=torch.long)
    mask[1, 5:] = 0
    mask[3, 2:] = 0
    prompt_mask = torch.ones(4, PROMPT, dtype=torch.long)
    prompt_mask[2, :2] = 0  # left padding
    return {
        "prompt_ids": torch.randint(2, VOCABULARY, (4, PROMPT), generator=g),
        "prompt_mask": prompt_mask,
        "completion_ids": torch.randint(2, VOCABULARY, (4, COMPLETION), generator=g),
        "completion_mask": mask,
        "advantages": torch.randn(4, generator=g),
        "noise": torch.randn(4, COMPLETION, generator=g),
        "ref_noise": torch.randn(4, COMPLETION, generator=g),
        "num_items_in_batch": mask.sum(),
    }


MODES = {
    "grpo": "seq-mean-token-mean",
    "bnpo": "token-mean",
    "dapo": "token-mean",
    "cispo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "luspo": "seq-mean-token-sum",
}


@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize(
    ("loss_type", "level"), [*((name, "token") for name in MODES), ("grpo", "sequence")]
)
def test_grpo_loss_and_gradient_of_the_parameters(
    loss_type: str, level: str, beta: float, tmp_path: object
) -> None:
    temperature = 0.8
    trainer = trainer_with(
        str(tmp_path),
        loss_type=loss_type,
        importance_sampling_level=level,
        beta=beta,
        temperature=temperature,
    )
    trainer.current_gradient_accumulation_steps = 1
    model, inputs = trainer.model, batch()
    model.train()
    mask = inputs["completion_mask"]

    def our_logp() -> Tensor:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        attention = torch.cat([inputs["prompt_mask"], mask], 1)
        logits = model(input_ids=ids, attention_mask=attention).logits
        logp = next_token_logprobs(logits, ids, temperature=temperature)
        return logp[:, -COMPLETION:]

    with torch.no_grad():
        start = our_logp()
    old = start + 0.3 * inputs.pop("noise")
    ref = start + 0.3 * inputs.pop("ref_noise")
    inputs |= {"old_per_token_logps": old, "ref_per_token_logps": ref}

    theirs = trainer._compute_loss(model, inputs)
    parameters = list(model.parameters())
    their_slopes = torch.autograd.grad(theirs, parameters, allow_unused=True)

    logp, column = our_logp(), inputs["advantages"][:, None]
    free = {"log_ratio_clamp": None}
    if loss_type == "cispo":
        bounds = {"clip_low": None, "clip_high": trainer.epsilon_high, "bounds": "absolute"}
        per_token = cispo_loss(logp, old, column, mask=mask, **bounds, **free)
    else:
        per_token = ppo_clip_loss(logp, old, column, mask=mask, ratio=level, **free)
    if beta:
        kl = kl_estimate(logp, ref, "k3", mask=mask, **free)
        ratio = (logp - old).exp()  # use_bias_correction_kl, TRL's default
        if level == "sequence":
            lengths = mask.sum(1, keepdim=True)
            ratio = (((logp - old) * mask).sum(1, keepdim=True) / lengths).exp()
        per_token = per_token + beta * ratio * kl
    ours = aggregate(per_token, mask, MODES[loss_type], max_tokens=COMPLETION)
    our_slopes = torch.autograd.grad(ours, parameters, allow_unused=True)

    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)
    for mine, other in zip(our_slopes, their_slopes, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            torch.testing.assert_close(mine, other, atol=2e-6, rtol=1e-4)
