// A hovering craft whose reward the reader weighs; a search trains it in the page and shows what was asked for.
(function () {
  "use strict";
  const { register, html, slider, button, plot, reducedMotion } = window.bookFigures;
  const model = window.hovererModel;
  const ITERATIONS = 30, PER_SECOND = 8, LOWEST = -3;
  const TIMES = Array.from({ length: model.STEPS + 1 }, (_, step) => step * model.STEP_S);
  const SECONDS = model.STEPS * model.STEP_S;
  const number = (value, digits = 2) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits).replace("-", "−");

  register("hoverer", "A hovering craft and the weights of its reward, interactive", (panel) => {
    const weights = { height: 1, fuel: 0.05, speed: 0.1 };
    const flight = plot({ x: [0, SECONDS], y: [0, 2.2], xLabel: "time (s)", yLabel: "height (m)", name: "" });
    const learning = plot({ x: [0, ITERATIONS], y: [LOWEST, 0], xLabel: "iterations of the search", yLabel: "reward a second", name: "" });
    const facts = html("dl", { class: "figure-facts" });
    const status = html("p", { class: "figure-note", role: "status" });
    let search, random, history, seed = 1, frame = 0, last = 0;

    const now = () => model.judge(search.mean, weights);
    const byHand = () => model.judge(model.BY_HAND, weights).reward;
    function reset() {
      search = model.newSearch();
      random = model.generator(seed);
      history = [now().reward];
    }
    function step() {
      search = model.improve(search, weights, random);
      history.push(now().reward);
    }
    function draw() {
      const found = now(), hand = byHand();
      flight.area("wanted", [[0, model.TARGET - 0.1], [SECONDS, model.TARGET - 0.1], [SECONDS, model.TARGET + 0.1], [0, model.TARGET + 0.1]], "wash");
      flight.line("target", [[0, model.TARGET], [SECONDS, model.TARGET]], "muted dashed");
      found.flights.forEach(({ heights }, at) => flight.line(`flight-${at}`, heights.map((height, place) => [TIMES[place], height]), "build thick"));
      learning.line("reward", history.map((reward, at) => [at, reward]), "build thick");
      learning.line("hand", [[0, hand], [ITERATIONS, hand]], "break dashed");
      facts.replaceChildren(...[
        ["iteration", String(search.iteration)],
        ["reward a second", number(found.reward)],
        ["time at the target", `${Math.round(100 * found.wanted)} %`],
        ["height error (m)", number(found.off)],
        ["thrust (in g)", number(found.fuel)],
        ["speed² (m²/s²)", number(found.fast)],
      ].map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words))));
      flight.describe(`Height against time for four starts. At the end they are at ${found.flights.map(({ heights }) => number(heights.at(-1))).join(", ")} metres; ${model.TARGET} metre is wanted.`);
      learning.describe(`Reward against iterations of the search. After ${search.iteration} it is ${number(found.reward)}; a controller made by hand would earn ${number(hand)}.`);
    }
    function verdict() {
      const found = now(), hand = byHand();
      const ends = `After ${search.iteration} iterations the craft is within 10 cm of the target and slow for ${Math.round(100 * found.wanted)} % of the time.`;
      if (found.reward < hand - 0.02) return `${ends} A controller made by hand would earn more, ${number(hand)}: here the search failed, not the reward.`;
      if (found.wanted < 0.5) return `${ends} It earns ${number(found.reward)}, as much as or more than the ${number(hand)} of a controller that hovers where it should: this is what the reward asks for.`;
      return `${ends} It earns ${number(found.reward)}; a controller made by hand earns ${number(hand)}.`;
    }
    function stop(words) {
      cancelAnimationFrame(frame);
      frame = 0;
      train.textContent = history.length > ITERATIONS ? "Train again" : "Train";
      draw();
      status.textContent = words ?? verdict();
    }
    function tick(time) {
      if (time - last >= 1000 / PER_SECOND) {
        last = time;
        step();
        draw();
      }
      if (history.length > ITERATIONS) { stop(); return; }
      frame = requestAnimationFrame(tick);
    }
    function press() {
      if (frame) { stop(); return; }
      if (history.length > ITERATIONS) reset();
      if (reducedMotion()) {
        while (history.length <= ITERATIONS) step();
        stop();
        return;
      }
      last = performance.now();
      train.textContent = "Pause";
      status.textContent = "Training …";
      frame = requestAnimationFrame(tick);
    }
    const weigh = (name, label, max, stepSize) => slider({
      label, min: 0, max, step: stepSize, value: weights[name], format: number,
      input: (value) => { weights[name] = value; reset(); stop("Another reward: the craft is untrained again."); },
    });
    const height = weigh("height", "Weight of the height error", 3, 0.1), fuel = weigh("fuel", "Weight of the thrust", 2, 0.05), speed = weigh("speed", "Weight of the squared speed", 5, 0.1);
    const train = button("Train", press, { class: "figure-button primary" });
    const other = button("Another seed", () => { seed += 1; reset(); stop(`The craft is untrained again, with seed ${seed}.`); });
    reset();
    draw();
    panel.append(
      html("div", { class: "figure-controls" }, height.element, fuel.element, speed.element, html("div", { class: "figure-buttons" }, train, other)),
      html("div", { class: "figure-plots" }, flight.element, learning.element),
      html("p", { class: "figure-legend" }, html("span", { class: "key build" }, "four flights; reward of the controller"), html("span", { class: "key muted dashed" }, "target"), html("span", { class: "key break dashed" }, "reward of a controller made by hand")),
      facts, status,
    );
  });
})();
