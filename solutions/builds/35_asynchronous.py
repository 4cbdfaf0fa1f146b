"""Asynchronous GRPO, from an empty file: the solution of build 35."""

import torch


def loss_of(policy, groups, settings):
    """The mean over all tokens of the batch of minus weight times advantage times logp."""
    total, count = 0.0, 0
    for group in groups:
        logp = policy(group.x).log_softmax(-1)
        logp = logp[torch.arange(len(group.x)), group.actions]
        weight = (logp.detach() - group.logp).exp().clamp(max=settings.cap)
        advantages = (group.rewards - group.rewards.mean())[:, None]
        losses = -weight * advantages * logp
        total = total + torch.where(group.mask, losses, 0.0).sum()
        count += group.mask.sum()
    return total / count


def update(policy, groups, settings):
    """One step of plain SGD; returns the loss."""
    loss = loss_of(policy, groups, settings)
    gradients = torch.autograd.grad(loss, list(policy.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(policy.parameters(), gradients, strict=True):
            parameter -= settings.learning_rate * gradient
    return loss


def train(policy, world, settings, *, log):
    """Train on groups that a generator draws meanwhile, each once; return the policy."""
    version, started, finished = 0, 0, {}
    world.publish(policy, version, [])
    while version < settings.updates:
        allowed = min(settings.groups, (settings.staleness + version + 1) * settings.batch)
        while started < allowed:
            world.start(started)
            started += 1
        due = range(version * settings.batch, (version + 1) * settings.batch)
        if all(number in finished for number in due):
            groups = [finished.pop(number) for number in due]
            loss = update(policy, groups, settings)
            version += 1
            world.publish(policy, version, due)
            log(loss=loss, reward=torch.stack([group.rewards.mean() for group in groups]).mean())
            continue
        event = world.next()
        if event.kind == "killed":
            world.publish(policy, version, [])
            for number in event.lost:
                world.start(number)
        else:
            finished[event.number] = event
    return policy
