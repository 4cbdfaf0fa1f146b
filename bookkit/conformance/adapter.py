"""What a library tells about itself: one method a function, each of them optional."""

from typing import NoReturn

from torch import Tensor


class NotProvided(Exception):  # noqa: N818 - an answer, not an error
    """The library has no such function, or not with this setting."""


class Adapter:
    """Calls a library's own functions. Override what it has; the rest stays "not provided".

    B sequences, T tokens, V vocabulary, N steps or actions. Tensors are float64 unless a case says
    otherwise; masks are 0/1 tensors of their dtype. An adapter translates names and shapes and
    nothing else: where a library returns a reduced loss only, it is called element by element.

    Class attributes: `name`, the distribution package whose version is reported, and `sources`,
    which tells for each method the function that it calls.
    """

    name = ""
    package = ""
    sources: dict[str, str] = {}  # noqa: RUF012 - each adapter has its own

    def _without(self, what: str) -> NoReturn:
        raise NotProvided(what)

    def token_logprobs(self, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        """(B,T,V), (B,T) aligned -> (B,T)."""
        self._without("token_logprobs")

    def entropy(self, logits: Tensor) -> Tensor:
        """(B,T,V) -> (B,T)."""
        self._without("entropy")

    def masked_mean(self, x: Tensor, mask: Tensor) -> Tensor:
        """Any shape -> scalar."""
        self._without("masked_mean")

    def whiten(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B,T) -> (B,T): advantages as the loss sees them; only counted positions are judged."""
        self._without("whiten")

    def environment_gae(
        self,
        rewards: Tensor,
        values: Tensor,
        next_values: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
        lam: float,
    ) -> Tensor:
        """(N,) each -> advantages (N,), before any whitening."""
        self._without("environment_gae")

    def token_gae(
        self, rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
    ) -> Tensor:
        """(B,T) -> advantages (B,T), before any whitening."""
        self._without("token_gae")

    def discounted_returns(self, rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
        """(B,T) -> reward-to-go (B,T), before any whitening."""
        self._without("discounted_returns")

    def group_advantages(self, rewards: Tensor, group_size: int) -> Tensor:
        """(B,) -> (B,): GRPO with the library's defaults."""
        self._without("group_advantages")

    def leave_one_out(self, rewards: Tensor, group_size: int) -> Tensor:
        """(B,) -> (B,): RLOO, not scaled."""
        self._without("leave_one_out")

    def kl(self, logp: Tensor, ref_logp: Tensor, kind: str) -> Tensor:
        """(B,T) -> (B,T) for kind "k1", "k2", "k3"."""
        self._without("kl")

    def ppo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
        """(N,) -> (N,) with clip 0.2 and the library's defaults otherwise."""
        self._without("ppo_loss")

    def gspo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        """(B,T), advantages (B,1) -> the mean of sequence means; clip 0.2 below, 1.0 above."""
        self._without("gspo_loss")

    def cispo_loss(
        self, logp: Tensor, old_logp: Tensor, advantages: Tensor, low: float, high: float
    ) -> Tensor:
        """(N,) -> (N,); low and high as the library's configuration takes them."""
        self._without("cispo_loss")

    def aggregate(
        self,
        per_token: Tensor,
        mask: Tensor,
        mode: str,
        max_tokens: int,
        total_tokens: int | None = None,
        total_sequences: int | None = None,
    ) -> Tensor:
        """(B,T) -> scalar, by the names of `nbkit.masks.AGGREGATION_MODES`."""
        self._without("aggregate")

    def value_loss(
        self, values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None
    ) -> Tensor:
        """(N,) -> (N,)."""
        self._without("value_loss")

    def preference_loss(
        self,
        chosen_logp: Tensor,
        rejected_logp: Tensor,
        ref_chosen_logp: Tensor,
        ref_rejected_logp: Tensor,
        chosen_tokens: Tensor,
        rejected_tokens: Tensor,
        beta: float,
        kind: str,
        label_smoothing: float,
    ) -> Tensor:
        """(B,) sums over responses -> (B,); kind "sigmoid", "robust", "hinge", "ipo"."""
        self._without("preference_loss")

    def reward_model_loss(self, chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
        """(B,) -> (B,)."""
        self._without("reward_model_loss")

    def importance_weights(
        self,
        train_logp: Tensor,
        rollout_logp: Tensor,
        mask: Tensor,
        mode: str,
        level: str,
        low: float | None,
        high: float | None,
    ) -> Tensor:
        """(B,T) -> (B,T); mode "truncate", "mask"; level "token", "sequence", "geometric"."""
        self._without("importance_weights")

    def place_sequence_reward(self, rewards: Tensor, mask: Tensor) -> Tensor:
        """(B,), (B,T) -> (B,T)."""
        self._without("place_sequence_reward")

    def completion_mask(self, ids: Tensor, eos_ids: list[int]) -> Tensor:
        """(B,T) -> mask (B,T)."""
        self._without("completion_mask")
