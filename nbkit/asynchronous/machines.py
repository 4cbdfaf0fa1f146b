"""A simulated set-up: devices, the seconds that they take, and the scheme that they follow."""

from dataclasses import dataclass
from typing import Literal

from nbkit._inputs import check_choice, check_number


@dataclass(frozen=True)
class Machines:
    """Devices that sample and devices that train.

    A device decodes up to `slots` completions at once, each at the same pace however many there
    are: the regime in which decoding waits for memory. Training shares a batch evenly.

    Attributes:
        samplers: devices that sample.
        trainers: devices that train.
        slots: completions that a device decodes at once.
        token_seconds: seconds of a token in its slot.
        train_token_seconds: seconds of training a token on one device.
        load_seconds: a sampler's pause for new weights (their way, and the cache made anew).
        switch_seconds: of a shared device, from sampling to training and again on the way back.

    """

    samplers: int = 4
    trainers: int = 4
    slots: int = 16
    token_seconds: float = 0.02
    train_token_seconds: float = 0.001
    load_seconds: float = 0.0
    switch_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("samplers", "trainers", "slots"):
            check_number(name, getattr(self, name), 1)
        for name in ("token_seconds", "train_token_seconds"):
            check_number(name, getattr(self, name), 0.0, open_low=True)
        for name in ("load_seconds", "switch_seconds"):
            check_number(name, getattr(self, name), 0.0)


@dataclass(frozen=True)
class Scheme:
    """When what may run.

    A group may be started while (staleness + version + 1) · prompts have not been, where `version`
    counts the updates that are done (AReaL, arXiv:2505.24298, section 5.1).

    Attributes:
        staleness: η; 0 is the synchronous scheme.
        barrier: the groups of a batch are started together, when the batch before is complete.
        in_flight: a sampler takes new weights between two tokens (PipelineRL, arXiv:2509.19128);
            otherwise it finishes what it has begun, starts nothing new, and then takes them.
        shared: all devices sample, then all train; needs a staleness of 0.
        order: the trainer takes groups as they were "started", which keeps the staleness of every
            token within η, or as they "finished", which does not.

    """

    staleness: int = 0
    barrier: bool = False
    in_flight: bool = False
    shared: bool = False
    order: Literal["started", "finished"] = "started"

    def __post_init__(self) -> None:
        check_number("staleness", self.staleness, 0)
        check_choice("order", self.order, ("started", "finished"))
        if self.shared and self.staleness:
            raise ValueError(
                "shared devices sample or train, not both: staleness must be 0, "
                f"got {self.staleness}"
            )
        if self.barrier and self.staleness > 1:
            raise ValueError(
                "with a barrier at most one batch is ahead: staleness must be 0 or 1, "
                f"got {self.staleness}"
            )


SYNCHRONOUS = Scheme()
COLOCATED = Scheme(shared=True)
ONE_STEP_AHEAD = Scheme(staleness=1, barrier=True)


def sampling_devices(machines: Machines, scheme: Scheme) -> int:
    """Devices that sample: all of them where they are shared."""
    return machines.samplers + machines.trainers if scheme.shared else machines.samplers


def training_devices(machines: Machines, scheme: Scheme) -> int:
    """Devices that train: all of them where they are shared."""
    return machines.samplers + machines.trainers if scheme.shared else machines.trainers


def training_seconds(tokens: int, machines: Machines, scheme: Scheme) -> float:
    """Seconds of an update on `tokens` tokens."""
    return tokens * machines.train_token_seconds / training_devices(machines, scheme)


def pause_seconds(machines: Machines, scheme: Scheme) -> float:
    """A sampler's pause before it goes on with new weights, seconds."""
    return machines.switch_seconds if scheme.shared else machines.load_seconds
