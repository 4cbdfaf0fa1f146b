"""How the learning rate of ``grpo_staleness`` was chosen: without a lag, on seeds of its own.

    python -m studies._staleness_tuning

Not a study: its seeds are used by nothing that is asserted.
"""

import itertools

import torch

from studies.grpo_staleness import settings, trained

SEEDS = (101, 102)
RATES = (1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)


def main() -> None:
    """Print the held-out accuracy over the run of every rate and seed."""
    torch.set_num_threads(1)
    for seed, rate in itertools.product(SEEDS, RATES):
        run = trained(settings("clip to the behaviour policy", learning_rate=rate), 0, seed)
        course = " ".join(f"{accuracy:.3f}" for accuracy in run["held_out"])
        print(f"seed {seed}, rate {rate:g}: {course}", flush=True)


if __name__ == "__main__":
    main()
