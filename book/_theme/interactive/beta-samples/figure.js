// Sixteen reviews, tilted by their reward: which of them the best policy still writes, for each β.
(function () {
  "use strict";
  const { register, html, slider, button, plot } = window.bookFigures;
  const model = window.betaSamplesModel;
  const POWERS = { min: -2, max: 1, step: 0.05, value: -0.5 };
  const GRID = Array.from({ length: 61 }, (_, at) => 10 ** (POWERS.min + (at * (POWERS.max - POWERS.min)) / 60));
  const NAMES = { sentiment: "VADER score", keyword: "keyword, ±1" };
  const number = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

  register("beta-samples", "Samples tilted by their reward, interactive", (panel) => {
    const state = { beta: 10 ** POWERS.value, kind: "sentiment" };
    const body = html("tbody", {});
    const table = html("table", { class: "panel-table tilted-samples" },
      html("thead", {}, html("tr", {}, ...["review", "reward", "share"].map((words) => html("th", { scope: "col" }, words)), html("td", {}))), body);
    const curve = plot({ x: [0, 3], y: [-1, 1], xLabel: "KL to the base, nats", yLabel: "mean reward", name: "" });
    const facts = html("dl", { class: "figure-facts" });
    const note = html("p", { class: "figure-note", role: "status" });

    function draw() {
      const rewards = model.REWARDS[state.kind], shares = model.weights(rewards, state.beta);
      const order = rewards.map((_, at) => at).sort((one, other) => rewards[other] - rewards[one] || one - other);
      body.replaceChildren(...order.map((at) => {
        const bar = html("span", { class: "share-bar" });
        bar.style.setProperty("--share", `${(100 * shares[at]).toFixed(2)}%`);
        return html("tr", {}, html("th", { scope: "row" }, model.SAMPLES[at][0]), html("td", {}, number(rewards[at])), html("td", {}, `${(100 * shares[at]).toFixed(1)} %`), html("td", { class: "bar" }, bar));
      }));
      const found = model.summary(rewards, state.beta);
      const points = GRID.map((beta) => model.summary(rewards, beta));
      curve.line("curve", points.map(({ kl, reward }) => [kl, reward]), "build thick");
      curve.dot("here", found.kl, found.reward, "break");
      facts.replaceChildren(...[
        ["mean reward", number(found.reward)],
        ["KL to the base (nats)", number(found.kl)],
        ["worth as many samples", number(found.size, 1)],
      ].map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words))));
      const top = Math.max(...shares), winners = order.filter((at) => shares[at] > 0.99 * top);
      const which = winners.length === 1 ? `“${model.SAMPLES[winners[0]][0]}” has the largest share` : `${winners.length} reviews share the first place`;
      note.textContent = `At β = ${number(state.beta, 3)} ${which}, ${(100 * top).toFixed(1)} %${winners.length > 1 ? " each" : ""}; a sample of the base had ${(100 / rewards.length).toFixed(1)} %.`;
      curve.describe(`Mean reward against KL to the base for β from ${GRID[0]} to ${GRID[60]}. At β = ${number(state.beta, 3)} the reward is ${number(found.reward)} at ${number(found.kl)} nats.`);
    }
    const beta = slider({ label: "KL coefficient β", ...POWERS, format: (power) => (10 ** power).toFixed(3), input: (power) => { state.beta = 10 ** power; draw(); } });
    const buttons = Object.entries(NAMES).map(([kind, words]) => button(words, () => {
      state.kind = kind;
      buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(Object.keys(NAMES)[at] === kind)));
      draw();
    }, { "aria-pressed": String(kind === state.kind) }));
    draw();
    panel.append(
      html("div", { class: "figure-controls" }, beta.element, html("div", { class: "figure-buttons" }, ...buttons)),
      html("div", { class: "figure-scroll", tabindex: "0", role: "region", "aria-label": "Reviews with their shares under the best policy" }, table),
      html("div", { class: "figure-plots" }, curve.element),
      facts, note,
    );
  });
})();
