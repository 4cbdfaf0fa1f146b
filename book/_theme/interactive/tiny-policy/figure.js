// A policy that trains in the page: choose beta, press Train, and watch proxy and gold reward part.
(function () {
  "use strict";
  const { register, html, slider, button, plot, reducedMotion } = window.bookFigures;
  const model = window.tinyPolicyModel;
  const TRAINING = { batch: 64, rate: 4 };
  const RUN_STEPS = 300;
  const STEPS_PER_SECOND = 60;
  const FIRST_BETA = 0.05;
  const CURVE_BETAS = Array.from({ length: 60 }, (_, at) => 2 * 0.005 ** (at / 59)); // from 2 to 0.01
  const SHOWN_REVIEWS = 5;
  const two = (value) => value.toFixed(2);

  register("tiny-policy", "A tiny policy that trains in this page", (panel) => {
    const optima = CURVE_BETAS.map(model.optimum);
    const longest = Math.ceil(Math.max(...optima.map((point) => point.kl)));
    const learning = plot({ x: [0, RUN_STEPS], y: [0, 1], xLabel: "training steps (64 reviews each)", yLabel: "mean reward", name: "" });
    const distance = plot({ x: [0, longest], y: [0, 1], xLabel: "KL to the reference (nats a review)", yLabel: "mean reward", name: "" });
    distance.line("proxy-best", optima.map((point) => [point.kl, point.proxy]), "build faint");
    distance.line("gold-best", optima.map((point) => [point.kl, point.gold]), "break faint");
    const reviews = html("ol", { class: "figure-reviews" });
    const status = html("p", { class: "figure-note", role: "status" });
    const facts = html("dl", { class: "figure-facts" });
    let policy, random, history, seed = 1, frame = 0, last = 0;

    const beta = slider({
      label: "KL coefficient β", min: -1.7, max: 0, step: 0.05, value: Math.log10(FIRST_BETA),
      format: (exponent) => (10 ** exponent).toPrecision(2), input: () => { draw(); },
    });
    const betaNow = () => 10 ** beta.value;

    function reset() {
      policy = model.referencePolicy();
      random = model.generator(seed);
      history = [model.evaluate(policy)];
    }

    function draw() {
      const now = history.at(-1), best = model.optimum(betaNow());
      learning.line("proxy", history.map((point, at) => [at, point.proxy]), "build thick");
      learning.line("gold", history.map((point, at) => [at, point.gold]), "break thick");
      distance.line("target", [[best.kl, 0], [best.kl, 1]], "muted dashed");
      distance.dot("proxy", now.kl, now.proxy, "build");
      distance.dot("gold", now.kl, now.gold, "break");
      const table = model.probabilities(policy);
      const dice = model.generator(1000 + history.length);
      reviews.replaceChildren(...Array.from({ length: SHOWN_REVIEWS }, () => html("li", {}, model.sample(table, dice).map((word) => model.WORDS[word]).join(" "))));
      facts.replaceChildren(...[["step", String(history.length - 1)], ["proxy reward", two(now.proxy)], ["gold reward", two(now.gold)], ["KL (nats)", two(now.kl)]]
        .map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value))));
      learning.describe(`Mean reward against training steps. After ${history.length - 1} steps the proxy is ${two(now.proxy)} and the gold reward ${two(now.gold)}.`);
      distance.describe(`Mean reward against KL to the reference. The policy is at ${two(now.kl)} nats; the best policy for this β is at ${two(best.kl)}.`);
    }

    function step() {
      model.trainStep(policy, { ...TRAINING, beta: betaNow(), random });
      history.push(model.evaluate(policy));
    }

    function stop(words) {
      cancelAnimationFrame(frame);
      frame = 0;
      train.textContent = history.length > RUN_STEPS ? "Train again" : "Train";
      const now = history.at(-1);
      status.textContent = words ?? `After ${history.length - 1} steps at β = ${betaNow().toPrecision(2)}: proxy ${two(now.proxy)}, gold ${two(now.gold)}.`;
      draw();
    }

    function tick(now) {
      // The same pace on every machine: where frames come late, more steps are taken in each.
      const due = Math.max(1, Math.round(((now - last) / 1000) * STEPS_PER_SECOND));
      last = now;
      for (let taken = 0; taken < due && history.length <= RUN_STEPS; taken += 1) step();
      if (history.length > RUN_STEPS) { stop(); return; }
      draw();
      frame = requestAnimationFrame(tick);
    }

    function press() {
      if (frame) { stop(); return; }
      if (history.length > RUN_STEPS) reset();
      if (reducedMotion()) {
        while (history.length <= RUN_STEPS) step();
        stop();
        return;
      }
      last = performance.now();
      train.textContent = "Pause";
      status.textContent = "Training …";
      frame = requestAnimationFrame(tick);
    }

    const train = button("Train", press, { class: "figure-button primary" });
    const again = button("Start over", () => { reset(); stop("The policy is the reference again."); });
    const other = button("Another seed", () => { seed += 1; reset(); stop(`The policy is the reference again, with seed ${seed}.`); });
    reset();
    draw();
    panel.append(
      html("div", { class: "figure-controls" }, beta.element, html("div", { class: "figure-buttons" }, train, again, other)),
      html("div", { class: "figure-plots" }, learning.element, distance.element),
      html("p", { class: "figure-legend" }, html("span", { class: "key build" }, "proxy: share of “great”"), html("span", { class: "key break" }, "gold: positive and varied"), html("span", { class: "key muted dashed" }, "best policy for this β")),
      html("div", { class: "figure-results" },
        html("div", {}, facts, status),
        html("div", { class: "figure-samples" }, html("p", {}, "Five reviews from the policy now"), reviews)),
    );
  });
})();
