// Sampled gradients of a bandit around the exact one, and their variance against the baseline.
(function () {
  "use strict";
  const { register, html, slider, button, plot } = window.bookFigures;
  const model = window.banditGradientModel;
  const ESTIMATES = 60;
  const BASELINES = [-1, 6];
  const number = (value) => value.toFixed(2).replace("-", "−");

  register("bandit-gradient", "The gradient of a bandit with three arms, interactive", (panel) => {
    const state = { baseline: 0, pulls: 1, first: Math.log(2), third: 0, seed: 1 };
    const arrows = plot({ x: [-3, 3], y: [-3, 3], xLabel: "change of arm 1's score", yLabel: "change of arm 3's score", name: "" });
    const curve = plot({ x: BASELINES, y: [0, 6], xLabel: "baseline b", yLabel: "variance of one estimate", name: "" });
    const facts = html("dl", { class: "figure-facts" });
    const note = html("p", { class: "figure-note", role: "status" });

    function draw() {
      const pi = model.softmax([state.first, 0, state.third]);
      const exact = model.exactGradient(pi), best = model.bestBaseline(pi);
      const random = model.generator(state.seed);
      const estimates = Array.from({ length: ESTIMATES }, () => model.estimate(pi, state.baseline, state.pulls, random));
      const mean = [0, 1, 2].map((arm) => estimates.reduce((total, one) => total + one[arm], 0) / ESTIMATES);
      estimates.forEach((one, at) => arrows.line(`estimate-${at}`, [[0, 0], [one[0], one[2]]], "muted faint"));
      arrows.line("mean", [[0, 0], [mean[0], mean[2]]], "break thick dashed");
      arrows.line("exact", [[0, 0], [exact[0], exact[2]]], "build thick");
      arrows.dot("exact-end", exact[0], exact[2], "build");

      const grid = Array.from({ length: 71 }, (_, at) => BASELINES[0] + at / 10);
      const variance = model.variance(pi, state.baseline, state.pulls);
      const average = model.expectedReward(pi);
      curve.line("variance", grid.map((b) => [b, model.variance(pi, b, state.pulls)]).filter(([, value]) => value <= 6), "build thick");
      curve.line("best", [[best, 0], [best, 6]], "break dashed");
      curve.line("average", [[average, 0], [average, 6]], "muted dashed");
      curve.dot("here", state.baseline, variance, "break");

      facts.replaceChildren(...[
        ["policy", pi.map(number).join(", ")],
        ["mean reward", number(average)],
        ["best baseline", number(best)],
        ["variance", number(variance)],
        ["exact gradient", exact.map(number).join(", ")],
        ["mean of 60", mean.map(number).join(", ")],
      ].map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words))));
      arrows.describe(`${ESTIMATES} estimates of the gradient from ${state.pulls} pulls each, around the exact gradient ${exact.map(number).join(", ")}. Their mean is ${mean.map(number).join(", ")}.`);
      curve.describe(`Variance of the estimate against the baseline. At baseline ${number(state.baseline)} it is ${number(variance)}; it is least at ${number(best)}.`);
    }

    function control(name, label, min, max, step, format = number) {
      return slider({ label, min, max, step, value: state[name], format, input: (value) => { state[name] = value; draw(); } });
    }
    const baseline = control("baseline", "Baseline b", BASELINES[0], BASELINES[1], 0.1);
    const pulls = slider({ label: "Pulls in one estimate", min: 0, max: 6, step: 1, value: 0, format: (power) => String(2 ** power), input: (power) => { state.pulls = 2 ** power; draw(); } });
    const first = control("first", "Score of arm 1", -3, 5, 0.1);
    const third = control("third", "Score of arm 3", -3, 5, 0.1);
    const setBaseline = (value, words) => {
      state.baseline = Math.min(BASELINES[1], Math.max(BASELINES[0], value));
      baseline.set(state.baseline);
      draw();
      note.textContent = words;
    };
    const policy = () => model.softmax([state.first, 0, state.third]);
    const atMean = button("Baseline = mean reward", () => setBaseline(model.expectedReward(policy()), "The baseline is the policy's mean reward."));
    const atBest = button("Best baseline", () => setBaseline(model.bestBaseline(policy()), "The baseline is the one of least variance."));
    const again = button("Draw again", () => { state.seed += 1; draw(); note.textContent = `Other pulls, number ${state.seed}. The mean of the estimates moves; the exact gradient does not.`; }, { class: "figure-button primary" });

    draw();
    panel.append(
      html("div", { class: "figure-plots" }, arrows.element, curve.element),
      html("p", { class: "figure-legend" }, html("span", { class: "key build" }, "exact gradient; variance"), html("span", { class: "key muted" }, "60 estimates; mean reward (dashed)"), html("span", { class: "key break dashed" }, "mean of the 60; best baseline")),
      html("div", { class: "figure-controls" }, baseline.element, pulls.element, first.element, third.element, html("div", { class: "figure-buttons" }, again, atMean, atBest)),
      facts, note,
    );
  });
})();
