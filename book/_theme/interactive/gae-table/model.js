// GAE on the four states of chapter 2: one sure episode, a critic that is wrong, a discount and λ.
(function (root) {
  "use strict";

  const STATES = ["A", "B", "C", "D"];
  const REWARDS = [0, 0, 0, 8];
  const CRITIC = [2, 2, 2, 4]; // what the critic says of A, B, C and D; 0 behind the end

  // What the episode really earned from each state on, which on the sure chain is also its value.
  function returns(gamma) {
    const found = [];
    let ahead = 0;
    for (let t = REWARDS.length - 1; t >= 0; t -= 1) found[t] = ahead = REWARDS[t] + gamma * ahead;
    return found;
  }

  // r + γ V(s') − V(s) of each step.
  function tdErrors(gamma) {
    return REWARDS.map((reward, t) => reward + gamma * (CRITIC[t + 1] ?? 0) - CRITIC[t]);
  }

  // What the TD error of step `later` adds to the advantage of step t: (γλ)^(later − t) δ, 0 for an earlier one.
  function parts(gamma, lambda) {
    const deltas = tdErrors(gamma);
    return STATES.map((_, t) => deltas.map((delta, later) => (later < t ? 0 : (gamma * lambda) ** (later - t) * delta)));
  }

  const advantages = (gamma, lambda) => parts(gamma, lambda).map((row) => row.reduce((sum, part) => sum + part, 0));

  // The λ-returns, which the critic learns towards.
  const targets = (gamma, lambda) => advantages(gamma, lambda).map((advantage, t) => advantage + CRITIC[t]);

  const model = { STATES, REWARDS, CRITIC, returns, tdErrors, parts, advantages, targets };
  if (typeof module !== "undefined") module.exports = model;
  else root.gaeTableModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
