"""REINFORCE: one answer a problem, its points as weight, one step a batch, no baseline."""

import torch

BATCH, LEARNING_RATE = 64, 3e-4


@torch.no_grad()
def sample(pupil, prompts, world, generator):
    """Answers of the pupil as it is: ids (B, T), and a mask that ends with the EOS."""
    state = None
    for place in range(prompts.shape[1]):
        logits, state = pupil.step(prompts[:, place], state)
    running, ids, mask = torch.ones(len(prompts), dtype=torch.bool), [], []
    for place in range(world.max_new_tokens):
        tokens = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        tokens = torch.where(running, tokens, world.pad_id)
        ids.append(tokens)
        mask.append(running)
        running = running & (tokens != world.eos_id)
        if place + 1 < world.max_new_tokens:
            logits, state = pupil.step(tokens, state)
    return torch.stack(ids, 1), torch.stack(mask, 1)


def logprobs_of(pupil, prompts, ids):
    """Log-probability of every token of the answers, (B, T)."""
    logits = pupil(torch.cat([prompts, ids[:, :-1]], 1))[:, prompts.shape[1] - 1 :]
    return logits.log_softmax(-1).gather(-1, ids[:, :, None])[:, :, 0]


def train(pupil, world, *, seed, log):
    """Train the pupil to be right on sums that it has not seen; return it."""
    generator = torch.Generator().manual_seed(seed)
    pupil.requires_grad_(True)
    optimiser = torch.optim.Adam(pupil.parameters(), lr=LEARNING_RATE)
    while world.tokens_left >= BATCH * world.max_new_tokens:
        numbers, prompts = world.problems(BATCH)
        ids, mask = sample(pupil, prompts, world, generator)
        rewards = world.score(ids, numbers)
        logprobs = (logprobs_of(pupil, prompts, ids) * mask).sum(1)
        loss = -(rewards * logprobs).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(pupil.parameters(), 1.0)
        optimiser.step()
        log(reward=rewards.mean())
    return pupil
