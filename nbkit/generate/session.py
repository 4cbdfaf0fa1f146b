"""One batch of slots: the cache, the state of every slot, and the decode step that moves them.

All that a step needs and all that it leaves lies in tensors on the device with fixed addresses:
newest token, position, count, seed, limit and row of each slot, and the result of every row. So a
step needs nothing from the host, and a CUDA graph can repeat it.
"""

import torch
from torch import Tensor

from nbkit.generate.model import Decoder
from nbkit.generate.options import EngineOptions, Sampling
from nbkit.generate.sampling import draw, filter_threshold, gumbel_noise

NOISE_NUMBERS = 2**17  # of noise that is made at one time on a CPU
NOISE_STEPS = 16


class Session:
    """Slots that are decoded together.

    Args:
        decoder: the model.
        slots: sequences at one time.
        length: most tokens of a sequence, prompt included.
        rows: most rows of one call.
        room: most new tokens of a row.
        options: how to compute.

    """

    def __init__(
        self,
        decoder: Decoder,
        slots: int,
        length: int,
        rows: int,
        room: int,
        options: EngineOptions,
    ) -> None:
        self.decoder, self.options = decoder, options
        self.cache = decoder.make_cache(slots, length)
        device = decoder.device
        self.state: dict[str, Tensor] = {
            name: torch.zeros(slots, dtype=torch.int64, device=device)
            for name in ("tokens", "positions", "counts", "seeds", "limits", "rows")
        }
        self.state["done"] = torch.ones(slots, dtype=torch.int32, device=device)
        # The last row is a bin for slots that have nothing to write.
        self.state["out_tokens"] = torch.full((rows + 1, room + 1), -1, device=device)
        self.state["out_logprobs"] = torch.zeros(
            rows + 1, room + 1, dtype=torch.float32, device=device
        )
        self._noise: Tensor | None = None
        self._noise_used = 0
        self._eos: dict[tuple[int, ...], Tensor] = {}
        self._decode = torch.compile(decoder.step) if options.compile else decoder.step

    @property
    def slots(self) -> int:
        """Sequences at one time."""
        return self.cache.slots

    def reset(self) -> None:
        """Forget all rows."""
        self.state["done"].fill_(1)
        self.state["out_tokens"].fill_(-1)
        self.state["out_logprobs"].zero_()
        self._noise = None

    def seat(self, slots: Tensor, **values: Tensor) -> None:
        """Put rows into slots (n,): tokens, positions, counts, seeds, limits, rows, each (n,)."""
        for name, value in values.items():
            self.state[name].index_copy_(0, slots, value)
        self.state["done"].index_fill_(0, slots, 0)
        self._noise = None

    def move(self, sources: Tensor, targets: Tensor, width: int) -> None:
        """Move rows from slots to other slots, with the first `width` columns of their cache."""
        self.cache.copy_slots(sources, targets, width)
        for name in ("tokens", "positions", "counts", "seeds", "limits", "rows", "done"):
            tensor = self.state[name]
            tensor.index_copy_(0, targets, tensor.index_select(0, sources))
        self.state["done"].index_fill_(0, sources, 1)
        self._noise = None

    def eos(self, ids: tuple[int, ...]) -> Tensor:
        """The ids on the device, padded with -1 to a power of two, at one address for ever."""
        if ids not in self._eos:
            size = 1 << max(0, len(ids) - 1).bit_length()
            padded = [*ids, *[-1] * (size - len(ids))]
            self._eos[ids] = torch.tensor(padded, dtype=torch.int64, device=self.decoder.device)
        return self._eos[ids]

    def step(
        self,
        batch_size: int,
        sampling: Sampling,
        horizon: int | None = None,
        aligned: bool = False,
    ) -> None:
        """Decode one token in the first `batch_size` slots; what is done stays as it is."""
        state = self.state
        logits = self._decode(
            *(state["tokens"][:batch_size], state["positions"][:batch_size], self.cache),
            *(horizon, aligned),
        )
        noise = self._next_noise(batch_size, logits.shape[-1]) if sampling.temperature else None
        self.draw_and_advance(logits, noise, sampling)

    def draw_and_advance(self, logits: Tensor, noise: Tensor | None, sampling: Sampling) -> None:
        """Draw a token a row of logits (B, V), store it, and move the rows on."""
        batch_size = logits.shape[0]
        tokens, logprobs = draw(
            logits,
            noise,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
        )
        names = ("tokens", "positions", "counts", "limits", "rows", "done")
        held, positions, counts, limits, rows, done = (
            self.state[name][:batch_size] for name in names
        )
        out, out_logprobs = self.state["out_tokens"], self.state["out_logprobs"]
        live = done == 0
        place = torch.where(live, rows * out.shape[1] + counts, out.numel() - 1)
        out.view(-1).index_copy_(0, place, tokens)
        out_logprobs.view(-1).index_copy_(0, place, logprobs)
        counts += live
        positions += live
        ended = counts >= limits
        for eos in sampling.eos_ids:
            ended |= tokens == eos
        done |= ended
        held.copy_(torch.where(live, tokens, held))

    def _next_noise(self, batch_size: int, vocabulary: int) -> Tensor:
        """Noise of this step; on a CPU made for several steps at one time."""
        seeds, counts = self.state["seeds"][:batch_size], self.state["counts"][:batch_size]
        if seeds.is_cuda:
            return gumbel_noise(seeds, counts, vocabulary)
        if (
            self._noise is None
            or self._noise_used == self._noise.shape[1]
            or self._noise.shape[0] != batch_size
            or self._noise.shape[2] != vocabulary
        ):
            steps = min(max(NOISE_NUMBERS // (batch_size * vocabulary), 1), NOISE_STEPS)
            places = counts[:, None] + torch.arange(steps)
            self._noise, self._noise_used = gumbel_noise(seeds, places, vocabulary), 0
        self._noise_used += 1
        return self._noise[:, self._noise_used - 1]


class FusedSession(Session):
    """The same with Triton kernels; each of the three kinds can be left to plain operations."""

    def step(
        self,
        batch_size: int,
        sampling: Sampling,
        horizon: int | None = None,
        aligned: bool = False,
    ) -> None:
        """Decode one token in the first `batch_size` slots."""
        from nbkit.generate import fused  # Triton, which a CPU has not

        logits = fused.decode_logits(
            *(
                self.decoder,
                self.state["tokens"][:batch_size],
                self.state["positions"][:batch_size],
            ),
            *(self.cache, self.options),
        )
        if self.options.sampler == "torch":
            noise = self._next_noise(batch_size, logits.shape[-1]) if sampling.temperature else None
            self.draw_and_advance(logits, noise, sampling)
            return
        threshold = None
        if sampling.temperature:
            threshold = filter_threshold(
                logits,
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                top_p=sampling.top_p,
            )
        fused.kernels_sampler.draw_and_advance(
            *(logits, threshold, sampling.temperature, self.eos(sampling.eos_ids), self.state),
            block=self.options.sampler_block,
        )
