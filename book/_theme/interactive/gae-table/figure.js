// The table of GAE: what each TD error adds to each advantage, and where the targets lie for every λ.
(function () {
  "use strict";
  const { register, html, slider, plot } = window.bookFigures;
  const model = window.gaeTableModel;
  const LAMBDAS = Array.from({ length: 41 }, (_, at) => at / 40);
  const TONES = ["build", "break", "scale", "muted"];
  const number = (value, digits = 2) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits).replace("-", "−");

  register("gae-table", "The table of generalised advantage estimation, interactive", (panel) => {
    const state = { lambda: 0.5, gamma: 0.5 };
    const table = html("table", { class: "panel-table" });
    const curve = plot({ x: [0, 1], y: [-2, 9], xLabel: "λ", yLabel: "target of the critic", name: "" });
    const note = html("p", { class: "figure-note", role: "status" });

    function head() {
      return html("thead", {}, html("tr", {}, ...["state", "reward", "critic", "TD error", ...model.STATES.map((name) => `δ of ${name} adds`), "advantage", "target", "return"].map((words) => html("th", { scope: "col" }, words))));
    }
    function row(at, values) {
      const { deltas, parts, advantages, targets, returns } = values;
      const cell = (words, className) => html("td", { class: className }, words);
      return html("tr", {}, html("th", { scope: "row" }, model.STATES[at]),
        cell(number(model.REWARDS[at], 0)), cell(number(model.CRITIC[at], 0)), cell(number(deltas[at])),
        ...parts[at].map((part, later) => {
          const made = cell(later < at ? "" : number(part), later < at ? "empty" : "part");
          if (later >= at) made.style.setProperty("--share", `${Math.round(100 * (state.gamma * state.lambda) ** (later - at))}%`);
          return made;
        }),
        cell(number(advantages[at]), "strong"), cell(number(targets[at]), "strong"), cell(number(returns[at])));
    }
    function draw() {
      const { lambda, gamma } = state;
      const values = {
        deltas: model.tdErrors(gamma), parts: model.parts(gamma, lambda), advantages: model.advantages(gamma, lambda),
        targets: model.targets(gamma, lambda), returns: model.returns(gamma),
      };
      table.replaceChildren(head(), html("tbody", {}, ...model.STATES.map((_, at) => row(at, values))));
      const lines = LAMBDAS.map((at) => model.targets(gamma, at));
      model.STATES.forEach((name, at) => {
        curve.line(`return-${name}`, [[0, values.returns[at]], [1, values.returns[at]]], `${TONES[at]} dashed faint`);
        curve.line(`target-${name}`, LAMBDAS.map((x, place) => [x, lines[place][at]]), `${TONES[at]} thick`);
        curve.dot(`dot-${name}`, lambda, values.targets[at], TONES[at]);
      });
      const off = values.targets.map((target, at) => Math.abs(target - values.returns[at]));
      const worst = off.indexOf(Math.max(...off));
      const words = Math.max(...off) < 0.005
        ? `At λ = ${number(lambda)} every target is the return that was earned: the critic's values cancel.`
        : `At λ = ${number(lambda)} the advantages are ${values.advantages.map((value) => number(value)).join(", ")}. The target of ${model.STATES[worst]} is off by most, ${number(off[worst])}.`;
      if (note.textContent !== words) note.textContent = words;
      curve.describe(`Targets of the states A to D against λ, at discount ${number(gamma)}. At λ = ${number(lambda)} they are ${values.targets.map((value) => number(value)).join(", ")}; the returns are ${values.returns.map((value) => number(value)).join(", ")}.`);
    }
    const control = (name, label) => slider({ label, min: 0, max: 1, step: 0.05, value: state[name], format: number, input: (value) => { state[name] = value; draw(); } });
    const lambda = control("lambda", "λ"), gamma = control("gamma", "Discount γ");
    draw();
    panel.append(
      html("div", { class: "figure-controls" }, lambda.element, gamma.element),
      html("div", { class: "figure-scroll", tabindex: "0", role: "region", "aria-label": "Table of the advantages" }, table),
      html("div", { class: "figure-plots" }, curve.element),
      html("p", { class: "figure-legend" }, ...model.STATES.map((name, at) => html("span", { class: `key ${TONES[at]}` }, `target of ${name}`)), html("span", { class: "key muted dashed" }, "return that was earned")),
      note,
    );
  });
})();
