"""GRPO: four answers a problem, compared with one another; four clipped epochs a batch."""

import torch

PROBLEMS, GROUP, EPOCHS = 32, 4, 4
CLIP, LEARNING_RATE = 0.2, 3e-4


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


def group_advantages(rewards):
    """Each mark against those of the other answers to its problem, (B,)."""
    groups = rewards.view(-1, GROUP)
    centred = groups - groups.mean(1, keepdim=True)
    return (centred / (groups.std(1, keepdim=True) + 1e-4)).flatten()


def train(pupil, world, *, seed, log):
    """Train the pupil to be right on sums that it has not seen; return it."""
    generator = torch.Generator().manual_seed(seed)
    pupil.requires_grad_(True)
    optimiser = torch.optim.Adam(pupil.parameters(), lr=LEARNING_RATE)
    while world.tokens_left >= PROBLEMS * GROUP * world.max_new_tokens:
        numbers, prompts = world.problems(PROBLEMS)
        numbers = numbers.repeat_interleave(GROUP)
        prompts = prompts.repeat_interleave(GROUP, 0)
        ids, mask = sample(pupil, prompts, world, generator)
        rewards = world.score(ids, numbers)
        advantages = group_advantages(rewards)[:, None]
        with torch.no_grad():
            old = logprobs_of(pupil, prompts, ids)
        for _ in range(EPOCHS):
            ratio = (logprobs_of(pupil, prompts, ids) - old).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            gain = torch.min(ratio * advantages, clipped * advantages)
            loss = -(gain * mask).sum() / mask.sum()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(pupil.parameters(), 1.0)
            optimiser.step()
        moved = ((ratio - 1).abs() > CLIP) & mask
        log(reward=rewards.mean(), clip_fraction=moved.sum() / mask.sum())
    return pupil
