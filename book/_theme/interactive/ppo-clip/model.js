// The clipped surrogate objective of PPO (Schulman et al. 2017, equation 7) for one action.
(function (root) {
  "use strict";

  const clip = (value, low, high) => Math.min(high, Math.max(low, value));

  // min(r A, clip(r, 1-e, 1+e) A)
  function objective(ratio, advantage, epsilon) {
    return Math.min(ratio * advantage, clip(ratio, 1 - epsilon, 1 + epsilon) * advantage);
  }

  // Whether the clip holds the objective flat here: only where a further step would have gained.
  function isFlat(ratio, advantage, epsilon) {
    return (advantage > 0 && ratio > 1 + epsilon) || (advantage < 0 && ratio < 1 - epsilon);
  }

  // Slope of the objective in the ratio.
  function slope(ratio, advantage, epsilon) {
    return isFlat(ratio, advantage, epsilon) ? 0 : advantage;
  }

  // What the clip does at a point, as a key: "inside", "flat" or "corrective".
  function region(ratio, advantage, epsilon) {
    if (isFlat(ratio, advantage, epsilon)) return "flat";
    if (ratio > 1 + epsilon || ratio < 1 - epsilon) return "corrective";
    return "inside";
  }

  const model = { objective, slope, isFlat, region };
  if (typeof module !== "undefined") module.exports = model;
  else root.ppoClipModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
