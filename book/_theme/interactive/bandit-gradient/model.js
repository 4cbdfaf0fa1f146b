// The gradient of a softmax bandit with three arms, exact and from samples, and the variance of the estimate.
(function (root) {
  "use strict";

  const MEANS = [1, 2, 4]; // what each arm pays, without noise

  // A repeatable generator of numbers in [0, 1): Mulberry32.
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }

  function softmax(logits) {
    const top = Math.max(...logits);
    const weights = logits.map((logit) => Math.exp(logit - top));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map((weight) => weight / total);
  }

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const expectedReward = (pi) => sum(pi.map((p, arm) => p * MEANS[arm]));

  // pi_a (r_a - J)
  function exactGradient(pi) {
    const average = expectedReward(pi);
    return pi.map((p, arm) => p * (MEANS[arm] - average));
  }

  const score = (pi, arm) => pi.map((p, other) => (other === arm ? 1 : 0) - p);

  // Probability of each arm times the squared norm of its score.
  const reach = (pi) => pi.map((p, arm) => p * sum(score(pi, arm).map((entry) => entry * entry)));

  // The constant with the least variance; the expected reward where the policy is certain.
  function bestBaseline(pi) {
    const weights = reach(pi), total = sum(weights);
    return total > 0 ? sum(weights.map((weight, arm) => weight * MEANS[arm])) / total : expectedReward(pi);
  }

  // Total variance of the estimate from `pulls` pulls with a constant baseline.
  function variance(pi, baseline, pulls) {
    const second = sum(reach(pi).map((weight, arm) => weight * (MEANS[arm] - baseline) ** 2));
    const exact = exactGradient(pi);
    return (second - sum(exact.map((entry) => entry * entry))) / pulls;
  }

  function pull(pi, random) {
    let left = random(), arm = 0;
    while (arm < pi.length - 1 && left >= pi[arm]) left -= pi[arm++];
    return arm;
  }

  // One estimate: the mean over pulls of (reward - baseline) times score.
  function estimate(pi, baseline, pulls, random) {
    const total = [0, 0, 0];
    for (let at = 0; at < pulls; at += 1) {
      const arm = pull(pi, random);
      score(pi, arm).forEach((entry, other) => { total[other] += ((MEANS[arm] - baseline) * entry) / pulls; });
    }
    return total;
  }

  const model = { MEANS, generator, softmax, expectedReward, exactGradient, bestBaseline, variance, estimate };
  if (typeof module !== "undefined") module.exports = model;
  else root.banditGradientModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
