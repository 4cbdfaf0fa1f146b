"""GRPO on sums, from an empty file: the solution of build 24."""

import torch


@torch.no_grad()
def sample(pupil, prompts, world, generator):
    """Answers of the pupil as it is: ids (B, T), and a mask that ends with the EOS."""
    state = None
    for place in range(prompts.shape[1]):
        logits, state = pupil.step(prompts[:, place], state)
    running, ids, mask = torch.ones(len(prompts), dtype=torch.bool), [], []
    for _ in range(world.max_new_tokens):
        tokens = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        tokens = torch.where(running, tokens, world.pad_id)
        ids.append(tokens)
        mask.append(running)
        running = running & (tokens != world.eos_id)
        logits, state = pupil.step(tokens, state)
    return torch.stack(ids, 1), torch.stack(mask, 1)


def logprobs_of(pupil, prompts, ids):
    """Log-probability of every token of the answers, (B, T)."""
    whole = torch.cat([prompts, ids], 1)
    logits = pupil(whole[:, :-1])[:, prompts.shape[1] - 1 :]
    return logits.log_softmax(-1).gather(-1, ids[:, :, None])[:, :, 0]


def group_advantages(rewards, group_size):
    """Each reward against those of the other answers to its problem, (B,)."""
    groups = rewards.view(-1, group_size)
    centred = groups - groups.mean(1, keepdim=True)
    return (centred / (groups.std(1, keepdim=True) + 1e-4)).flatten()


def train(pupil, world, settings, *, seed, log):
    """Train the pupil that is given to be right more often; return it."""
    generator = torch.Generator().manual_seed(seed)
    pupil.requires_grad_(True)
    optimiser = torch.optim.Adam(pupil.parameters(), lr=settings.learning_rate)
    size = settings.prompts * settings.group_size
    for _ in range(settings.updates):
        if world.tokens_left < size * world.max_new_tokens:
            break
        numbers, prompts = world.problems(settings.prompts)
        numbers = numbers.repeat_interleave(settings.group_size)
        prompts = prompts.repeat_interleave(settings.group_size, 0)
        ids, mask = sample(pupil, prompts, world, generator)
        rewards = world.score(ids, numbers)
        advantages = group_advantages(rewards, settings.group_size)[:, None]
        with torch.no_grad():
            old = logprobs_of(pupil, prompts, ids)
        for _ in range(settings.epochs):
            new = logprobs_of(pupil, prompts, ids)
            ratio = (new - old).exp()
            clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            gain = torch.min(ratio * advantages, clipped * advantages)
            loss = -(gain * mask).sum() / mask.sum()
            optimiser.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(pupil.parameters(), settings.max_grad_norm)
            optimiser.step()
        moved = ((ratio - 1).abs() > settings.clip) & mask
        log(clip_fraction=moved.sum() / mask.sum(), gradient_norm=norm)
    return pupil
