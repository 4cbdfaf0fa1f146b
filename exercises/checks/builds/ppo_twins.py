"""Mistakes that the files of builds 12 and 41 share: both write PPO's advantages and its clip."""

from bookkit.exercises.exercise import edit

SIGN_AND_ENDS = (
    edit("wrong sign", "policy_loss = -torch", "policy_loss = torch", "has the wrong sign"),
    edit(
        "truncation as termination",
        '~batch["terminated"]',
        '~batch["done"]',
        "truncation is treated as termination",
    ),
    edit(
        "no end stops the bootstrap",
        'batch["next_values"] * ~batch["terminated"]',
        'batch["next_values"]',
        "does not stop the bootstrap",
    ),
    edit(
        "no mask",
        'valid = batch["valid"]',
        'valid = torch.ones_like(batch["valid"])',
        "rows that are no step of an episode were learned from",
    ),
)
NO_CLIP = edit(
    "no clip",
    "clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)",
    "clipped = ratio",
    "it is not clipped",
)
NO_DISCOUNT = edit("no discount", "+ gamma * ahead", "+ ahead", "the discount is missing")
