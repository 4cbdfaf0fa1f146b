// Two views of PPO's clipped objective: along the ratio, and over ratio and advantage.
(function () {
  "use strict";
  const { register, html, slider, plot } = window.bookFigures;
  const { objective, slope, region } = window.ppoClipModel;
  const RATIO = [0, 2.5], ADVANTAGE = [-2, 2];
  const number = (value) => value.toFixed(2).replace("-", "−");
  const MEANINGS = {
    inside: "The ratio is within the clip range: the gradient is that of the plain objective.",
    flat: "The policy has already moved far enough in the direction that the advantage asks for: the objective is flat and the gradient is zero.",
    corrective: "The ratio is outside the clip range, but on the wrong side for this advantage: the gradient is not cut and pulls the policy back.",
  };

  register("ppo-clip", "The clipped objective of PPO, interactive", (panel) => {
    const state = { ratio: 1.4, advantage: 1, epsilon: 0.2 };
    const curve = plot({ x: RATIO, y: [-5, 5], xLabel: "ratio r = π(a|s) / π_old(a|s)", yLabel: "objective", name: "" });
    const map = plot({ x: RATIO, y: ADVANTAGE, xLabel: "ratio r", yLabel: "advantage A", name: "" });
    const facts = html("dl", { class: "figure-facts" });
    const meaning = html("p", { class: "figure-note", role: "status" });

    function draw() {
      const { ratio, advantage, epsilon } = state;
      const ends = [RATIO[0], 1 - epsilon, 1 + epsilon, RATIO[1]];
      curve.area("range", [[ends[1], -5], [ends[2], -5], [ends[2], 5], [ends[1], 5]], "wash");
      curve.line("plain", RATIO.map((r) => [r, r * advantage]), "muted dashed");
      curve.line("clipped", ends.map((r) => [r, objective(r, advantage, epsilon)]), "build thick");
      curve.dot("here", ratio, objective(ratio, advantage, epsilon), "break");
      map.area("above", [[1 + epsilon, 0], [RATIO[1], 0], [RATIO[1], 2], [1 + epsilon, 2]], "flat");
      map.area("below", [[0, 0], [1 - epsilon, 0], [1 - epsilon, -2], [0, -2]], "flat");
      map.text("above-name", (1 + epsilon + RATIO[1]) / 2, 1.05, "zero gradient", "", "middle");
      map.text("below-name", (1 - epsilon) / 2, -1.05, "zero gradient", "", "middle");
      map.line("zero", [[RATIO[0], 0], [RATIO[1], 0]], "muted");
      map.dot("here", ratio, advantage, "break");
      const value = objective(ratio, advantage, epsilon);
      const here = region(ratio, advantage, epsilon);
      facts.replaceChildren(...[
        ["plain r·A", number(ratio * advantage)],
        ["clipped objective", number(value)],
        ["gradient in r", number(slope(ratio, advantage, epsilon))],
      ].map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words))));
      if (meaning.textContent !== MEANINGS[here]) meaning.textContent = MEANINGS[here];
      curve.describe(`Objective against ratio for advantage ${number(advantage)} and clip range ${number(epsilon)}. At ratio ${number(ratio)} the clipped objective is ${number(value)}.`);
      map.describe(`Ratio ${number(ratio)} and advantage ${number(advantage)}; the gradient is zero where the ratio is above ${number(1 + epsilon)} and the advantage positive, and where it is below ${number(1 - epsilon)} and the advantage negative.`);
    }

    function control(name, label, min, max, step) {
      return slider({ label, min, max, step, value: state[name], format: number, input: (value) => { state[name] = value; draw(); } });
    }
    const ratio = control("ratio", "Ratio r", RATIO[0], RATIO[1], 0.05);
    const advantage = control("advantage", "Advantage A", ADVANTAGE[0], ADVANTAGE[1], 0.1);
    const epsilon = control("epsilon", "Clip range ε", 0.05, 0.5, 0.05);

    function drag(event) {
      if (event.type === "pointermove" && !map.element.hasPointerCapture(event.pointerId)) return;
      if (event.type === "pointerdown") map.element.setPointerCapture(event.pointerId);
      [state.ratio, state.advantage] = map.place(event);
      ratio.set(state.ratio);
      advantage.set(state.advantage);
      draw();
    }
    map.element.classList.add("draggable");
    map.element.addEventListener("pointerdown", drag);
    map.element.addEventListener("pointermove", drag);

    draw();
    panel.append(
      html("div", { class: "figure-plots" }, curve.element, map.element),
      html("p", { class: "figure-legend" }, html("span", { class: "key build" }, "clipped objective"), html("span", { class: "key muted dashed" }, "plain r·A"), html("span", { class: "key break round" }, "where you are")),
      html("div", { class: "figure-controls" }, ratio.element, advantage.element, epsilon.element),
      facts, meaning,
    );
  });
})();
