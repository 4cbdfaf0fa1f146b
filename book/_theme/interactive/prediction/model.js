// A guess against the truth: the same rules as `nbkit.predict` and `nbkit.reveal` have in Python.
(function (root) {
  "use strict";
  const height = (plot, value) => (plot.logY ? Math.log10(value) : value);
  const distance = (plot, one, other) => Math.abs(height(plot, one) - height(plot, other));

  // The guess at a place: straight lines between its points [x, y], level outside of them.
  function valueOf(plot, guess, x) {
    const after = guess.findIndex(([place]) => place > x);
    if (after === 0) return guess[0][1];
    if (after < 0) return guess[guess.length - 1][1];
    const [[a, low], [b, high]] = [guess[after - 1], guess[after]];
    const share = (x - a) / (b - a);
    return plot.logY ? low * (high / low) ** share : low + (high - low) * share;
  }

  // {score, mean, place, guessed, value}: of 100, the mean distance, and where they are furthest.
  function verdict(plot, guess, truth) {
    const misses = truth.map(([x, y]) => distance(plot, valueOf(plot, guess, x), y));
    const mean = misses.reduce((sum, miss) => sum + miss, 0) / misses.length;
    const score = Math.max(0, Math.round(100 * (1 - mean / distance(plot, ...plot.yRange))));
    const furthest = truth[misses.lastIndexOf(Math.max(...misses))];
    return { score, mean, place: furthest[0], guessed: valueOf(plot, guess, furthest[0]), value: furthest[1] };
  }

  const model = { height, valueOf, verdict };
  if (typeof module !== "undefined") module.exports = model;
  else root.predictionModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
