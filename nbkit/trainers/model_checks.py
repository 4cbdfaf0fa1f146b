"""What a model must be before a trainer takes it: able to learn, and without noise of its own."""

from torch import nn

SAMPLES_OTHERWISE = "so that its log-probabilities are not those it samples with"


def check_trainable(name: str, model: nn.Module) -> None:
    """Raise ValueError if no parameter of the model has a gradient."""
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"{name}: all parameters are frozen; call requires_grad_(True) on it")


def check_no_dropout(name: str, model: nn.Module, consequence: str) -> None:
    """Raise ValueError if a model of transformers drops out units.

    Args:
        name: of the argument, for the message.
        model: in training or in evaluation mode.
        consequence: what the noise would spoil: "so that ...".

    """
    chances = [m.p for m in model.modules() if isinstance(m, nn.Dropout)]
    chances.append(getattr(model.config, "attention_dropout", 0.0))
    if model.training and any(chances):
        raise ValueError(f"{name}: dropout is on, {consequence}; call eval() on it")
