"""Control: actor-critics, rollouts, episodes, normalisers; gymnasium's environments as batches."""
