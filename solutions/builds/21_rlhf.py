"""A reward model and PPO within a KL budget, from an empty file: the solution of build 21."""

import copy

import torch
from torch import nn
from torch.nn.functional import logsigmoid


class Scalar(nn.Module):
    """The body of a policy and one number at each token, (B, L)."""

    def __init__(self, policy):
        super().__init__()
        self.embedding, self.lstm = copy.deepcopy(policy.embedding), copy.deepcopy(policy.lstm)
        self.head = nn.Linear(policy.lstm.hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids):
        """At token t: of everything up to t."""
        return self.head(self.lstm(self.embedding(ids))[0])[:, :, 0]


class RewardModel(Scalar):
    """The number at the last token of a text, (B,)."""

    def forward(self, ids, mask):
        """Pads may stand on both sides."""
        last = torch.where(mask, torch.arange(ids.shape[1]), -1).amax(1)
        return super().forward(ids).gather(1, last[:, None])[:, 0]


def train_reward_model(policy, world, settings, *, seed, log):
    """Train a reward model from comparisons; return it: ids, mask (B, L) to scores (B,)."""
    generator = torch.Generator().manual_seed(seed)
    model = RewardModel(policy)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    pairs = world.comparisons(world.comparisons_left)
    for step in range(settings.steps):
        optimiser.param_groups[0]["lr"] = settings.learning_rate * (1 - step / settings.steps)
        rows = torch.randint(len(pairs.chosen), (settings.batch_size,), generator=generator)
        chosen = model(pairs.chosen[rows], pairs.chosen_mask[rows])
        rejected = model(pairs.rejected[rows], pairs.rejected_mask[rows])
        loss = -logsigmoid(chosen - rejected).mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimiser.step()
        log(loss=loss, accuracy=(chosen > rejected).float().mean())
    return model.requires_grad_(False)


@torch.no_grad()
def sample(policy, prompts, world, generator):
    """Answers of the policy as it is: ids (B, T), and a mask that ends with the EOS."""
    hidden, state = policy.lstm(policy.embedding(prompts))
    logits = policy.head(hidden[:, -1])
    running, ids, mask = torch.ones(len(prompts), dtype=torch.bool), [], []
    while running.any() and len(ids) < world.max_new_tokens:
        tokens = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        tokens = torch.where(running, tokens, world.pad_id)
        ids.append(tokens)
        mask.append(running)
        running = running & (tokens != world.eos_id)
        logits, state = policy.step(tokens, state)
    return torch.stack(ids, 1), torch.stack(mask, 1)


def logprobs_of(policy, ids, width):
    """Log-probability of each of the last `width` tokens, (B, width)."""
    logits = policy(ids[:, :-1])[:, -width:]
    return logits.log_softmax(-1).gather(-1, ids[:, -width:, None])[:, :, 0]


def token_rewards(scores, logprobs, reference, mask, kl_coefficient):
    """At each token its KL term, at the last one the score as well, (B, T)."""
    penalty = kl_coefficient * torch.where(mask, logprobs - reference, 0.0)
    is_last = mask & (mask.cumsum(1) == mask.sum(1, keepdim=True))
    return torch.where(is_last, scores[:, None], 0.0) - penalty


def advantages_of(rewards, values, mask, lam):
    """GAE without a discount, (B, T): advantages, and what the values should have been."""
    held = torch.where(mask, values, 0.0)  # behind the end there is nothing
    ahead = torch.cat([held[:, 1:], torch.zeros_like(held[:, :1])], 1)
    deltas = torch.where(mask, rewards + ahead - held, 0.0)
    found, trace = torch.zeros_like(deltas), torch.zeros_like(deltas[:, 0])
    for t in reversed(range(deltas.shape[1])):
        trace = deltas[:, t] + lam * trace
        found[:, t] = trace
    return found, found + held


def whitened(advantages, mask):
    """Mean 0 and standard deviation 1 over what counts; rounding does not become an advantage."""
    counted = advantages[mask]
    return torch.where(mask, (advantages - counted.mean()) / (counted.std() + 1e-4), 0.0)


@torch.no_grad()
def collect(policy, reference, critic, reward_model, world, settings, generator):
    """Sample a batch of answers and all that an update needs of it."""
    prompts, known = world.prompts(settings.batch_size)
    answers, mask = sample(policy, prompts, world, generator)
    ids, width = torch.cat([prompts, answers], 1), mask.shape[1]
    world.sampled(ids)
    scores = reward_model(ids, torch.cat([known, mask], 1))
    ended = ((answers == world.eos_id) & mask).any(1)
    paid = torch.where(ended, scores, scores - settings.missing_eos_penalty)
    old, far = logprobs_of(policy, ids, width), logprobs_of(reference, ids, width)
    rewards = token_rewards(paid, old, far, mask, settings.kl_coefficient)
    values = critic(ids[:, :-1])[:, -width:]
    advantages, returns = advantages_of(rewards, values, mask, settings.lam)
    batch = {
        "ids": ids,
        "mask": mask,
        "logprobs": old,
        "advantages": whitened(advantages, mask),
        "returns": returns,
    }
    kl = torch.where(mask, old - far, 0.0).sum(1).mean()
    error = ((returns - values)[mask].var() / returns[mask].var()).item()
    seen = {"score": scores.mean(), "kl_answer": kl, "explained_variance": 1 - error}
    return batch, {**seen, "length": mask.sum(1).float().mean()}


def losses_of(policy, critic, rows, settings):
    """The clipped surrogate and the error of the values, means over tokens; the share clipped."""
    mask, width = rows["mask"], rows["mask"].shape[1]
    ratio = (logprobs_of(policy, rows["ids"], width) - rows["logprobs"]).exp()
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    gain = torch.min(ratio * rows["advantages"], clipped * rows["advantages"])
    error = 0.5 * (critic(rows["ids"][:, :-1])[:, -width:] - rows["returns"]).square()
    share = ((ratio - 1).abs() > settings.clip)[mask].float().mean()
    policy_loss = -torch.where(mask, gain, 0.0).sum() / mask.sum()
    return policy_loss, torch.where(mask, error, 0.0).sum() / mask.sum(), share


def train_policy(policy, reward_model, world, settings, *, seed, log):
    """Train the policy to earn more, near to how it began; return it and its values (B, L)."""
    generator = torch.Generator().manual_seed(seed)
    reference = copy.deepcopy(policy).requires_grad_(False)
    critic = Scalar(policy)
    models = {policy: settings.learning_rate, critic: settings.value_learning_rate}
    optimisers = [torch.optim.Adam(m.parameters(), lr=rate) for m, rate in models.items()]
    for _ in range(settings.updates):
        if world.tokens_left < settings.batch_size * world.max_new_tokens:
            break
        batch, seen = collect(policy, reference, critic, reward_model, world, settings, generator)
        for _ in range(settings.epochs):
            shuffled = torch.randperm(settings.batch_size, generator=generator)
            for part in shuffled.chunk(settings.minibatches):
                rows = {name: column[part] for name, column in batch.items()}
                *losses, share = losses_of(policy, critic, rows, settings)
                for model, optimiser, loss in zip(models, optimisers, losses, strict=True):
                    optimiser.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
                    optimiser.step()
        log(**seen, clip_fraction=share)
    return policy, critic
