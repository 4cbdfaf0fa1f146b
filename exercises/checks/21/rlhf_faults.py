"""The faults of rlhf.repair.1, each put back by itself."""

from bookkit.exercises.exercise import edit

FAULTS = (
    edit(
        "KL with the opposite sign",
        "ref_logprobs, mask, beta",
        "ref_logprobs, mask, -beta",
        "drifting away from the reference is paid instead of charged: the reward of a "
        "token is -beta times (logprobs - ref_logprobs)",
    ),
    edit(
        "KL of the policy of now",
        "token_rewards(scores, rollout.logprobs",
        "token_rewards(scores, policy(rollout.ids)[0]",
        "the KL is computed from the current log-probabilities: a reward is a fact "
        "about the rollout, so take those that were recorded",
    ),
    edit(
        "pads taken for ends",
        "rollout.ids, mask, rollout.eos_id",
        "rollout.ids, torch.ones_like(mask), rollout.eos_id",
        "a pad with the id of the end counts as an end, so that answers which were "
        "cut off are never charged: look under the mask",
    ),
    edit(
        "penalty added",
        "rollout.eos_id, penalty",
        "rollout.eos_id, -penalty",
        "not ending is rewarded: the penalty is subtracted",
    ),
    edit(
        "score in the last column",
        "token_rewards(scores, rollout.logprobs, rollout.ref_logprobs, mask, beta)",
        "token_rewards(\n"
        "        torch.zeros_like(scores), rollout.logprobs, rollout.ref_logprobs, "
        "mask, beta\n"
        "    )\n"
        "    rewards[:, -1] += scores",
        "the score is paid in the last column: it belongs to the last token that counts",
    ),
    edit(
        "score on every token",
        "token_rewards(scores, rollout.logprobs, rollout.ref_logprobs, mask, beta)",
        "token_rewards(\n"
        "        torch.zeros_like(scores), rollout.logprobs, rollout.ref_logprobs, "
        "mask, beta\n"
        "    )\n"
        "    rewards = torch.where(mask, rewards + scores[:, None], rewards)",
        "the score is paid on every token: it is paid once, on the last one that counts",
    ),
    edit(
        "the value of a pad",
        "torch.where(mask, rollout.values, 0.0)",
        "rollout.values",
        "the last token is bootstrapped with the value of the pad behind it: behind "
        "the last token there is nothing",
    ),
    edit(
        "trace lost",
        " + lam * trace",
        "",
        "`lam` has no effect: the advantages are the temporal differences alone",
    ),
    edit(
        "whitened with pads",
        "weights = (weights - weights.mean()) / (weights.std() + 1e-8)",
        "weights = (weights - advantages.mean()) / (advantages.std() + 1e-8)",
        "mean and standard deviation of the advantages include the pads, which are "
        "zeros: the shorter the answers, the stranger the result",
    ),
    edit(
        "whitened row by row",
        "    if len(weights) > 1:\n"
        "        weights = (weights - weights.mean()) / (weights.std() + 1e-8)\n"
        "    else:\n"
        "        weights = torch.zeros_like(weights)\n",
        "    rows = []\n"
        "    for row, counts in zip(advantages, mask):\n"
        "        row = row[counts]\n"
        "        alone = len(row) < 2\n"
        "        rows.append(0 * row if alone else (row - row.mean()) / (row.std() + "
        "1e-8))\n"
        "    weights = torch.cat(rows)\n",
        "each answer is whitened by itself, which removes what it was worth: take all "
        "counted tokens of the batch",
    ),
    edit(
        "not whitened",
        "    if len(weights) > 1:\n"
        "        weights = (weights - weights.mean()) / (weights.std() + 1e-8)\n"
        "    else:\n"
        "        weights = torch.zeros_like(weights)\n",
        "",
        "the advantages enter the surrogate as they are: whiten them over the counted tokens",
    ),
    edit(
        "targets from whitened advantages",
        "    logprobs, values = policy(rollout.ids)\n",
        "    returns = weights + rollout.values[mask]\n"
        "    logprobs, values = policy(rollout.ids)\n",
        "the critic's target is made from whitened advantages: form the returns first, then whiten",
    ),
    edit(
        "advantages as targets",
        "(advantages + rollout.values)[mask]",
        "advantages[mask]",
        "the critic is trained on the advantages: its target is advantage plus recorded value",
    ),
    edit(
        "ratio always 1",
        "logprobs - rollout.logprobs",
        "logprobs - logprobs.detach()",
        "the current policy is taken for the old one, so the ratio is always 1 and "
        "nothing is clipped: use the recorded log-probabilities",
    ),
    edit(
        "ratio upside down",
        "logprobs - rollout.logprobs",
        "rollout.logprobs - logprobs",
        "the ratio is old over new: it is exp(new - old)",
    ),
    edit(
        "the larger of the two",
        "torch.minimum",
        "torch.maximum",
        "the larger of the two surrogates is taken: PPO takes the smaller one",
    ),
    edit(
        "divided by all positions",
        "error).mean()",
        "error).sum() / mask.numel()",
        "the losses are divided by all positions, pads included: divide by the number "
        "of counted tokens",
    ),
    edit(
        "mean of means",
        "(-surrogate + value_coefficient * error).mean()",
        "(\n"
        "        (-surrogate + value_coefficient * error)\n"
        "        / mask.sum(dim=1, keepdim=True).expand_as(mask)[mask]\n"
        "    ).sum() / len(mask)",
        "each answer is averaged by itself and then the answers: here every counted "
        "token weighs the same",
    ),
    edit(
        "critic detached",
        "values[mask] - returns",
        "values[mask].detach() - returns",
        "no gradient reaches the critic: its values are detached in its own loss",
    ),
    edit(
        "half missing",
        "0.5 * (values",
        "(values",
        "the square of the critic's error is not halved",
    ),
    edit(
        "coefficient ignored",
        "value_coefficient * error",
        "error",
        "`value_coefficient` has no effect: it multiplies the critic's loss",
    ),
)
