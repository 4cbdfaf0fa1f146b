"""Stages for a sampler: its tokens are those of the plain way, and it needs less time for them."""

import random
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bookkit.builds.decoder import LONGEST, VOCABULARY, Decoder, decoder
from bookkit.builds.session import Session, Stopped
from bookkit.builds.verdict import Finding

EOS = 0
Tokens = list[list[int]]


@dataclass(frozen=True)
class Order:
    """What is to be sampled.

    Attributes:
        prompts: token ids, of unequal lengths.
        draws: (B, T) numbers from 0 to 1: the token is the first whose cumulative probability is
            larger.
        temperature: by which logits are divided.
        eos_id: ends an answer and belongs to it; -1: none does.

    """

    prompts: Tokens
    draws: Tensor
    temperature: float
    eos_id: int = EOS

    @classmethod
    def drawn(
        cls,
        draw: random.Random,
        *,
        rows: int,
        lengths: tuple[int, int],
        new: int,
        temperature: float,
        eos_id: int = EOS,
    ) -> "Order":
        """Draw prompts and numbers; one prompt is the shortest, half are the longest."""
        sizes = [lengths[0], *[lengths[1]] * (rows // 2)]
        sizes += [draw.randint(*lengths) for _ in range(rows - len(sizes))]
        prompts = [[draw.randrange(1, VOCABULARY) for _ in range(size)] for size in sizes]
        generator = torch.Generator().manual_seed(draw.randrange(2**31))
        draws = torch.rand(rows, new, generator=generator, dtype=torch.float64)
        return cls(prompts, draws, temperature, eos_id)


@torch.no_grad()
def plain(model: Decoder, order: Order, *, temperature: float | None = None) -> Tokens:
    """The answers by the plain way: each row alone, the whole sequence for every token."""
    found = []
    for prompt, draws in zip(order.prompts, order.draws, strict=True):
        ids, answer = list(prompt), []
        for number in draws:
            logits = model(torch.tensor([ids]))[0, -1] / (temperature or order.temperature)
            token = chosen(logits.softmax(-1)[None], number[None])[0]
            answer.append(int(token))
            ids.append(int(token))
            if answer[-1] == order.eos_id:
                break
        found.append(answer)
    return found


def chosen(probabilities: Tensor, draws: Tensor) -> Tensor:
    """The first token whose cumulative probability is larger than the draw, (B,)."""
    above = probabilities.cumsum(-1) > draws[:, None]
    return torch.where(above.any(-1), above.int().argmax(-1), probabilities.shape[-1] - 1)


@torch.no_grad()
def plain_seconds(model: Decoder, order: Order) -> tuple[Tokens, float]:
    """The plain way, all rows at once: answers and processor seconds; prompts of one length."""
    began = time.process_time()
    ids = torch.tensor(order.prompts)
    for place in range(order.draws.shape[1]):
        logits = model(ids)[:, -1] / order.temperature
        token = chosen(logits.softmax(-1), order.draws[:, place])
        ids = torch.cat([ids, token[:, None]], 1)
    return ids[:, len(order.prompts[0]) :].tolist(), time.process_time() - began


def asked(session: Session, order: Order) -> Tokens:
    """The learner's answers.

    Raises:
        Stopped: not one answer a prompt.

    """
    reply = session.call(
        "generate",
        {"prompts": order.prompts, "eos_id": order.eos_id, "temperature": order.temperature},
        {"draws": order.draws.numpy()},
    )
    none = np.zeros(0, dtype=np.int64)
    lengths, tokens = (reply.arrays.get(name, none) for name in ("lengths", "tokens"))
    flat = all(part.dtype == np.int64 and part.ndim == 1 for part in (lengths, tokens))
    fits = flat and len(lengths) == len(order.prompts) and bool((lengths >= 0).all())
    if not fits or lengths.sum() != len(tokens):
        raise Stopped(
            f"`generate` returns one answer a prompt: {len(order.prompts)} lists of tokens"
        )
    ends = np.cumsum(lengths)
    return [tokens[end - n : end].tolist() for n, end in zip(lengths, ends, strict=True)]


def send(session: Session, model: Decoder) -> None:
    """Give the learner's process the weights."""
    session.call("model", arrays={name: x.numpy() for name, x in model.state_dict().items()})


@dataclass(frozen=True)
class EqualStage:
    """Unequal prompts, several temperatures: token by token what the plain way gives.

    Attributes:
        title: of the stage.

    """

    title: str

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Sample and compare; say where the first difference points to."""
        model, before = decoder(draw.randrange(2**31)), session.meter.seconds
        send(session, model)
        count = 0
        for temperature in (1.0, 0.6, 1.7):
            order = Order.drawn(draw, rows=12, lengths=(1, 20), new=24, temperature=temperature)
            mine, theirs = plain(model, order), asked(session, order)
            count += sum(map(len, mine))
            if mine != theirs:
                seconds = session.meter.seconds - before
                told = symptom(model, order, mine, theirs)
                return Finding(self.title, False, told, processor_seconds=seconds)
        return Finding(
            self.title,
            True,
            f"all {count} tokens of 36 answers are those of the plain way",
            used=count,
            unit="tokens",
            processor_seconds=session.meter.seconds - before,
        )


def symptom(model: Decoder, order: Order, mine: Tokens, theirs: Tokens) -> str:
    """What the difference of two sets of answers points to."""
    pairs = list(zip(mine, theirs, strict=True))
    longest = max(map(len, order.prompts))
    if all(b[: len(a)] == a for a, b in pairs):
        return "Answers go on after the end: a row that has drawn the EOS is finished."
    if all(b == (a[:-1] if a[-1] == order.eos_id else a) for a, b in pairs):
        return "The EOS is missing: it ends an answer and is its last token."
    if order.temperature != 1.0 and theirs == plain(model, order, temperature=1.0):
        return "The temperature is not used: logits are divided by it before the softmax."
    if theirs == plain(model, order, temperature=1e-9):
        return "The draws are not used: this is the most likely token at every place."
    shared = Order(order.prompts, order.draws[:1].expand_as(order.draws), order.temperature)
    if theirs == plain(model, shared):
        return "All rows use the draws of the first row: row b has its own, `draws[b]`."
    first = [a[0] == b[0] if b else False for a, b in pairs]
    whole = [
        a == b for a, b, p in zip(mine, theirs, order.prompts, strict=True) if len(p) == longest
    ]
    if all(whole) and not all(a == b for a, b in pairs):
        return (
            "Only answers to shorter prompts differ: the padding is attended to, or positions "
            "count "
            "it. A prompt's first token has position 0."
        )
    if all(first):
        return (
            "Every first token is right and later ones are not: look at the position of a new "
            "token, "
            "and at what is put into the cache."
        )
    return "The first tokens differ already: look at the logits of the last token of each prompt."


@dataclass(frozen=True)
class FasterStage:
    """A long answer: the same tokens, in a part of the plain way's processor time.

    Attributes:
        title: of the stage.
        share: of the plain way's time, that passes.

    """

    title: str
    share: float

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Time the plain way here, and the learner's there."""
        model = decoder(draw.randrange(2**31))
        send(session, model)
        new, start = LONGEST - 40, 32
        order = Order.drawn(
            draw, rows=8, lengths=(start, start), new=new, temperature=1.0, eos_id=-1
        )
        asked(session, Order(order.prompts, order.draws[:, :4], 1.0, -1))  # what is loaded once
        before = session.meter.seconds
        theirs = asked(session, order)
        seconds = session.meter.seconds - before
        mine, ours = plain_seconds(model, order)
        said = f"{seconds:.2f} s of processor time, {ours:.2f} s for the plain way"
        if [len(row) for row in theirs] != [new] * 8:
            return Finding(self.title, False, f"without an EOS every answer has {new} tokens")
        wrong = [
            row for row, pair in enumerate(zip(mine, theirs, strict=True)) if pair[0] != pair[1]
        ]
        if wrong:
            told = (
                f"long answers are not those of the plain way: {len(wrong)} of {len(mine)} differ"
            )
            return Finding(self.title, False, f"{told}, as in row {wrong[0]}")
        passed = seconds <= self.share * ours
        told = (
            said
            if passed
            else (
                f"It is not faster ({said}): keep keys and values of what was read, and run the "
                "model on "
                "the newest token alone."
            )
        )
        return Finding(
            self.title, passed, told, used=8 * new, unit="tokens", processor_seconds=seconds
        )
