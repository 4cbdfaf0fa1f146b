"""Transformers with a scalar head: reward models, value models, and a policy that is both."""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nbkit._inputs import check_choice
from nbkit.masks import last_token_index
from nbkit.runs.ranks import reads_weights
from nbkit.text.model_inputs import model_inputs
from nbkit.text.protocols import PretrainedModel

HEADS = ("zero", "random")
_HEAD_FILE = "scalar_head.safetensors"


class ScalarModel(nn.Module):
    """A transformer body with one number a position: a reward model or a value model.

    Args:
        body: a base model of transformers, without a language-model head.
        head: (width -> 1); kept in float32, because bfloat16 resolves scores to 1 % only.

    """

    def __init__(self, body: PretrainedModel, head: nn.Linear) -> None:
        super().__init__()
        self.body, self.head = body, head

    @classmethod
    def from_causal(
        cls, model: PretrainedModel, *, head: str = "zero", seed: int = 0
    ) -> "ScalarModel":
        """Return a scalar model on a copy of a language model's body.

        Args:
            model: a causal language model of transformers; not changed.
            head: "zero" begins with 0 everywhere, "random" with standard deviation
                1 / sqrt(width + 1) (Stiennon et al., arXiv:2009.01325, appendix B.1).
            seed: of the random head.

        Raises:
            ValueError: an unknown `head`.

        """
        check_choice("head", head, HEADS)
        body = copy.deepcopy(model.base_model)
        return cls(body, _scalar_head(body, head, seed))

    def forward(self, ids: Tensor, attention: Tensor) -> Tensor:
        """One number a position, (B, L) float32; the one at t has seen the ids up to t.

        Args:
            ids: (B, L), padded on either side.
            attention: (B, L), 1 on real tokens.

        """
        hidden = self.body(**model_inputs(ids, attention)).last_hidden_state
        return _apply(self.head, hidden)

    def scores(self, ids: Tensor, attention: Tensor) -> Tensor:
        """The number at the last real token of each row, (B,), found by position."""
        return last_scores(self(ids, attention), attention)

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the body as a folder of transformers, and the head beside it."""
        from safetensors.torch import save_file

        folder = Path(folder)
        self.body.save_pretrained(folder)
        state = {k: v.detach().cpu().contiguous() for k, v in self.head.state_dict().items()}
        save_file(state, folder / _HEAD_FILE)

    @classmethod
    def from_pretrained(cls, folder: Path | str, **settings: Any) -> "ScalarModel":
        """Read what ``save_pretrained`` wrote; of several ranks all but the first get shapes alone.

        Args:
            folder: with body and head.
            settings: of ``AutoModel.from_pretrained``, such as `dtype`.

        Raises:
            FileNotFoundError: the folder holds no head.

        """
        from safetensors.torch import load_file
        from transformers import AutoConfig, AutoModel

        path = Path(folder) / _HEAD_FILE
        if not path.exists():
            raise FileNotFoundError(f"{path}: this folder was not written by ScalarModel")
        if not reads_weights():
            with torch.device("meta"):
                body = AutoModel.from_config(AutoConfig.from_pretrained(folder), **settings)
            return cls(body, _scalar_head(body, "zero", 0))
        body = AutoModel.from_pretrained(folder, **settings)
        head = _scalar_head(body, "zero", 0)
        head.load_state_dict(load_file(path))
        return cls(body, head)


class SharedActorCritic(nn.Module):
    """One trunk with two heads: the language model, and a value of each state.

    Args:
        model: a causal language model of transformers; its trunk is shared, not copied.
        head: start of the value head, "zero" or "random".
        seed: of the random head.

    """

    def __init__(self, model: PretrainedModel, *, head: str = "zero", seed: int = 0) -> None:
        super().__init__()
        check_choice("head", head, HEADS)
        self.model = model
        self.head = _scalar_head(model.base_model, head, seed)

    def logits_and_values(self, ids: Tensor, attention: Tensor, keep: int) -> tuple[Tensor, Tensor]:
        """Logits (B, keep, V) and values (B, keep) of the last `keep` positions, in one pass."""
        hidden = self.model.base_model(**model_inputs(ids, attention)).last_hidden_state[:, -keep:]
        logits = self.model.get_output_embeddings()(hidden)
        return logits, _apply(self.head, hidden)


def last_scores(numbers: Tensor, attention: Tensor) -> Tensor:
    """Of one number a position (B, L) that at the last real token of each row, (B,)."""
    last = last_token_index(attention)
    return numbers.gather(1, last.clamp(min=0)[:, None])[:, 0]


def _apply(head: nn.Linear, hidden: Tensor) -> Tensor:
    """One number a position in the precision of the head, under autocast too."""
    with torch.autocast(hidden.device.type, enabled=False):
        numbers: Tensor = head(hidden.to(head.weight.dtype))[..., 0]
    return numbers


def _scalar_head(body: PretrainedModel, kind: str, seed: int) -> nn.Linear:
    width = body.config.hidden_size
    device = next(body.parameters()).device
    head = nn.Linear(width, 1, device=device, dtype=torch.float32)
    nn.init.zeros_(head.bias)
    nn.init.zeros_(head.weight)
    if kind == "random":
        drawn = torch.randn(1, width, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            head.weight.copy_(drawn / (width + 1) ** 0.5)
    return head
