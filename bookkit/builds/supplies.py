"""The judge's side of build 21: hands out comparisons and prompts, counts, and looks at answers."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bookkit.builds.session import Stopped
from bookkit.builds.wire import Arrays

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]
Judgement = Callable[[Ids, Ids], Sequence[float]]  # prompts (B, P), answers (B, T) -> B numbers
EARLY, OFTEN = 3, 10  # batches in which a policy that samples cannot repeat itself
ASKED = 8192  # prompts of one call, at most


@dataclass
class Supplies:
    """What a learner's file may ask for, and the judge's counts.

    Attributes:
        prompts: (N, P), padded on the left.
        chosen: answers that won with their prompts, (M, P+T), padded on the right.
        rejected: those that lost.
        ids: of PAD, BOS and EOS.
        size: of the vocabulary.
        longest: T, the end included.
        tokens: of answers that may be handed over.
        draw: of the prompts.
        judgement: what the curve shows of answers; nothing of it is sent.
        scores: the judge's own reward model, where there is one; this is sent.
        given: comparisons so far.
        used: tokens so far.
        answered: answers so far.
        means: (answers so far, mean judgement) of each batch.
        last: the batch that was handed over last.
        alike: of the first batches, those in which all answers to each prompt are one.
        again: of the first batches, those that were handed over before.
        beyond: scored answers whose mask counts a place behind the end.
        short: scored answers whose mask leaves out the end, or a token before it.

    """

    prompts: Ids
    chosen: Ids
    rejected: Ids
    ids: tuple[int, int, int]
    size: int
    longest: int
    tokens: int
    draw: random.Random
    judgement: Judgement
    scores: Judgement | None = None
    given: int = 0
    used: int = 0
    answered: int = 0
    means: list[tuple[float, float]] = field(default_factory=list)
    last: Ids | None = None
    alike: int = 0
    again: int = 0
    beyond: int = 0
    short: int = 0

    def __post_init__(self) -> None:
        self._known = {row.tobytes() for row in self.prompts}
        self._seen: set[bytes] = set()

    @property
    def width(self) -> int:
        """P."""
        return self.prompts.shape[1]

    def describe(self) -> dict[str, int]:
        """The attributes of the learner's `world`."""
        pad_id, bos_id, eos_id = self.ids
        return {
            "pad_id": pad_id,
            "bos_id": bos_id,
            "eos_id": eos_id,
            "vocabulary_size": self.size,
            "prompt_length": self.width,
            "max_new_tokens": self.longest,
            "comparisons_left": len(self.chosen) - self.given,
            "tokens_left": self.tokens - self.used,
        }

    def answer(
        self, kind: str, data: dict[str, Any], arrays: Arrays
    ) -> tuple[dict[str, Any], Arrays]:
        """Answer `comparisons`, `prompts`, `sampled`, and `score` where the judge has scores.

        Raises:
            Stopped: arguments that do not fit, or more than a budget.

        """
        if kind == "comparisons":
            return self._comparisons(data.get("count"))
        if kind == "prompts":
            count = data.get("count")
            if type(count) is not int or not 0 < count <= ASKED:
                raise Stopped(f"`world.prompts` wants a number from 1 to {ASKED}; it got {count!r}")
            rows = [self.draw.randrange(len(self.prompts)) for _ in range(count)]
            found = self.prompts[rows]
            return {}, {"ids": found, "mask": self.mask_of(found)}
        if kind == "sampled":
            self._take(self._checked(arrays.get("ids"), "world.sampled"))
            return {"tokens_left": self.tokens - self.used}, {}
        if kind == "score" and self.scores is not None:
            return {}, {"scores": self._score(arrays.get("ids"), arrays.get("mask"))}
        raise Stopped(f"your process asked for {kind!r}, which the world does not answer")

    def mask_of(self, ids: Ids) -> Mask:
        """True on prompt and answer up to the end, (B, L); pads are known by their place."""
        real = np.cumsum(ids[:, : self.width] != self.ids[0], axis=1) > 0
        ended = np.cumsum(ids[:, self.width :] == self.ids[2], axis=1)
        before = np.concatenate([np.zeros_like(ended[:, :1]), ended[:, :-1]], axis=1)
        return np.concatenate([real, before == 0], axis=1)

    def _comparisons(self, count: Any) -> tuple[dict[str, Any], Arrays]:
        if type(count) is not int or count < 1:
            raise Stopped(f"`world.comparisons` wants a number from 1; it got {count!r}")
        if self.given + count > len(self.chosen):
            raise Stopped(
                f"your file asked for more than its {len(self.chosen):,} comparisons: "
                "`world.comparisons_left` says how many are left"
            )
        part = slice(self.given, self.given + count)
        self.given += count
        pair = {"chosen": self.chosen[part], "rejected": self.rejected[part]}
        masks = {f"{name}_mask": self.mask_of(ids) for name, ids in pair.items()}
        return {"comparisons_left": len(self.chosen) - self.given}, {**pair, **masks}

    def _checked(self, ids: Any, what: str) -> Ids:
        fits = ids is not None and ids.dtype == np.int64 and ids.ndim == 2 and len(ids) > 0
        if not fits or not 0 < ids.shape[1] - self.width <= self.longest:
            shape = None if ids is None else ids.shape
            raise Stopped(
                f"`{what}` wants ids (B, P+T) of prompts with answers, P = {self.width} and T at "
                f"most {self.longest}; it got the shape {shape}"
            )
        if ids.min() < 0 or ids.max() >= self.size:
            raise Stopped(f"`{what}` wants ids from 0 to {self.size - 1}")
        if any(row.tobytes() not in self._known for row in ids[:, : self.width]):
            raise Stopped(f"`{what}` wants prompts that `world.prompts` has given, and as it did")
        return ids

    def _take(self, ids: Ids) -> None:
        tokens = int(self.mask_of(ids)[:, self.width :].sum())
        if self.used + tokens > self.tokens:
            raise Stopped(
                f"your file handed over more than its {self.tokens:,} tokens: stop when "
                "`world.tokens_left` is smaller than a batch"
            )
        self.used += tokens
        if len(self.means) < EARLY:
            groups: dict[bytes, set[bytes]] = {}
            for row in ids:
                prompt, answer = row[: self.width].tobytes(), row[self.width :].tobytes()
                groups.setdefault(prompt, set()).add(answer)
            self.alike += len(ids) > 2 * len(groups) and all(len(g) == 1 for g in groups.values())
        if len(self.means) < OFTEN:
            self.again += ids.tobytes() in self._seen
            self._seen.add(ids.tobytes())
        self.last = ids
        self.answered += len(ids)
        found = self.judgement(ids[:, : self.width], ids[:, self.width :])
        self.means.append((float(self.answered), float(np.mean(found))))

    def _score(self, ids: Any, mask: Any) -> NDArray[np.float32]:
        ids = self._checked(ids, "reward_model")
        if mask is None or mask.dtype != np.bool_ or mask.shape != ids.shape:
            raise Stopped(f"`reward_model` wants a mask of the shape {ids.shape} of its ids")
        wanted, given = (part[:, self.width :] for part in (self.mask_of(ids), mask))
        self.beyond += int((given & ~wanted).any(1).sum())
        self.short += int((wanted & ~given).any(1).sum())
        assert self.scores is not None
        found = self.scores(ids[:, : self.width], ids[:, self.width :])
        return np.array(found, dtype=np.float32)
