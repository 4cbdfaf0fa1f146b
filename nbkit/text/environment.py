"""A text environment from scratch: the state is the tokens so far, an action is the next token."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit._inputs import check_integers
from nbkit.text.protocols import TextVocabulary

TerminalReward = Callable[[str], float]
StepReward = Callable[[str, str], float]


@dataclass(frozen=True)
class TextStep:
    """What one step returns; B episodes in parallel.

    Attributes:
        state: (B, t+1) ids, BOS first; finished rows go on with PAD.
        rewards: (B,) reward of this step; 0 in rows that had already finished.
        terminated: (B,) the row has produced EOS, now or earlier.
        truncated: (B,) the row met the length limit without an EOS.

    """

    state: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor

    @property
    def done(self) -> Tensor:
        """(B,) the episode is over, for either reason."""
        return self.terminated | self.truncated


class TextEnv:
    """B independent episodes of writing; each ends at EOS or after ``max_new_tokens`` tokens.

    Args:
        vocabulary: ids to text.
        terminal_reward: called with the whole text when an episode ends.
        step_reward: called with the text before and after each token; added to the above.
        max_new_tokens: length limit, EOS included.

    """

    def __init__(
        self,
        vocabulary: TextVocabulary,
        terminal_reward: TerminalReward | None = None,
        *,
        step_reward: StepReward | None = None,
        max_new_tokens: int = 40,
    ) -> None:
        if terminal_reward is None and step_reward is None:
            raise ValueError("terminal_reward, step_reward: an environment needs at least one")
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: need at least 1, got {max_new_tokens}")
        self.vocabulary = vocabulary
        self.terminal_reward, self.step_reward = terminal_reward, step_reward
        self.max_new_tokens = max_new_tokens
        self._state: Tensor | None = None

    def reset(self, batch_size: int, *, device: torch.device | str = "cpu") -> Tensor:
        """Start ``batch_size`` episodes; return the state (B, 1), which is BOS."""
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size: need an integer of at least 1, got {batch_size!r}")
        self._state = torch.full((batch_size, 1), self.vocabulary.bos_id, device=device)
        self._terminated = torch.zeros(batch_size, dtype=torch.bool, device=device)
        self._texts = [""] * batch_size
        return self._state

    def step(self, actions: Tensor) -> TextStep:
        """Append actions (B,) to the episodes that still run."""
        if self._state is None:
            raise RuntimeError("step: call reset before the first step")
        if actions.shape != self._terminated.shape:
            raise ValueError(
                f"actions: shape {tuple(actions.shape)}, expected ({len(self._texts)},)"
            )
        check_integers("actions", actions)
        if bool(((actions < 0) | (actions >= len(self.vocabulary))).any()):
            raise ValueError(
                f"actions: ids must lie in 0..{len(self.vocabulary) - 1}; got "
                f"{int(actions.min())} to {int(actions.max())}"
            )
        if self._state.shape[1] > self.max_new_tokens:
            raise RuntimeError("step: every episode is over; call reset")
        running = ~self._terminated
        actions = torch.where(running, actions, self.vocabulary.pad_id)
        self._state = torch.cat([self._state, actions[:, None]], 1)
        self._terminated = self._terminated | (running & (actions == self.vocabulary.eos_id))
        at_limit = self._state.shape[1] == self.max_new_tokens + 1
        truncated = ~self._terminated if at_limit else torch.zeros_like(self._terminated)
        ending = running & (self._terminated | truncated)
        rewards = self._rewards(running.tolist(), ending.tolist())
        return TextStep(self._state, rewards.to(actions.device), self._terminated, truncated)

    def _rewards(self, running: list[bool], ending: list[bool]) -> Tensor:
        assert self._state is not None
        rewards = torch.zeros(len(running))
        if self.step_reward is None and not any(ending):
            return rewards
        rows = self._state[:, 1:].tolist()
        for i, row in enumerate(rows):
            if not running[i] or (self.step_reward is None and not ending[i]):
                continue
            before, self._texts[i] = self._texts[i], self.vocabulary.decode(row)
            reward = 0.0
            if self.step_reward is not None:
                reward += self.step_reward(before, self._texts[i])
            if ending[i] and self.terminal_reward is not None:
                reward += self.terminal_reward(self._texts[i])
            if not math.isfinite(reward):
                raise ValueError(f"reward: {reward} for the text {self._texts[i]!r}")
            rewards[i] = reward
        return rewards
