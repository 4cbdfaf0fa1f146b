"""Control: actor-critics, rollouts, episodes, normalisers; batches of environments on tensors."""
