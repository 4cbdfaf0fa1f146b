"""Data parallel training by hand, from an empty file: the solution of build 32."""

import torch
import torch.nn.functional as F


def make_equal(model, world):
    """Every rank begins with the weights of rank 0: one message."""
    parameters = list(model.parameters())
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    copy_back(world.broadcast(flat), [parameter.data for parameter in parameters])


def copy_back(flat, tensors):
    """Cut a flat message into the shapes of some tensors, and write it there."""
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, part in zip(tensors, flat.split(sizes), strict=True):
        tensor.copy_(part.view_as(tensor))


def train(model, world, settings, *, log):
    """Train on this rank's rows, in step with the other ranks; return the model."""
    make_equal(model, world)
    parameters = list(model.parameters())
    optimiser = torch.optim.SGD(parameters, lr=settings.learning_rate, momentum=settings.momentum)
    for step in range(settings.steps):
        x, y, mask = world.batch(step)
        losses = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="none")
        loss = (losses * mask.flatten()).sum()
        optimiser.zero_grad()
        loss.backward()
        gradients = [parameter.grad for parameter in parameters]
        local = torch.cat([*(g.flatten() for g in gradients), mask.sum().view(1)])
        total = world.all_reduce(local)
        copy_back(total[:-1] / total[-1], gradients)
        norm = torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        optimiser.step()
        log(loss=loss / mask.sum().clamp(min=1), gradient_norm=norm)
    return model
