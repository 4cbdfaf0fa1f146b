"""REINFORCE with a leash, from an empty file: the solution of build 11."""

import copy

import torch


@torch.no_grad()
def sample(writer, world, count, generator):
    """Texts of the writer as it is: ids (B, T), and a mask that ends with the EOS."""
    tokens, state = torch.full((count,), world.bos_id), None
    running, ids, mask = torch.ones(count, dtype=torch.bool), [], []
    while running.any() and len(ids) < world.max_new_tokens:
        logits, state = writer.step(tokens, state)
        tokens = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        tokens = torch.where(running, tokens, world.pad_id)
        ids.append(tokens)
        mask.append(running)
        running = running & (tokens != world.eos_id)
    return torch.stack(ids, 1), torch.stack(mask, 1)


def logprobs_of(writer, ids, world):
    """Log-probability of every token, (B, T): the logits behind BOS and t tokens score token t."""
    first = torch.full((len(ids), 1), world.bos_id)
    logits = writer(torch.cat([first, ids[:, :-1]], 1))
    return logits.log_softmax(-1).gather(-1, ids[:, :, None])[:, :, 0]


def train(writer, world, settings, *, seed, log):
    """Train the writer that is given to earn more, near to how it wrote; return it."""
    generator = torch.Generator().manual_seed(seed)
    base = copy.deepcopy(writer).requires_grad_(False)
    writer.requires_grad_(True)
    optimiser = torch.optim.Adam(writer.parameters(), lr=settings.learning_rate)
    for _ in range(settings.updates):
        if world.tokens_left < settings.batch_size * world.max_new_tokens:
            break
        ids, mask = sample(writer, world, settings.batch_size, generator)
        rewards = world.score(ids)
        logprobs = logprobs_of(writer, ids, world)
        with torch.no_grad():
            distance = (logprobs - logprobs_of(base, ids, world)) * mask
        penalty = settings.kl_coefficient * distance
        ahead = -penalty.flip(1).cumsum(1).flip(1)  # of this token and those that follow
        returns = rewards[:, None] + ahead
        others = (mask.sum(0) - 1).clamp(min=1)
        baseline = ((returns * mask).sum(0) - returns) / others
        weights = (returns - baseline) * mask
        loss = -(weights * logprobs * mask).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(writer.parameters(), settings.max_grad_norm)
        optimiser.step()
        log(reward=rewards.mean(), kl=distance.sum(1).mean(), gradient_norm=norm)
    return writer
