// A timeline of samplers and trainer whose tail, staleness and split of devices the reader sets.
(function () {
  "use strict";
  const { register, html, svg, slider, button } = window.bookFigures;
  const model = window.asyncTimelineModel;
  const WIDTH = 700, LEFT = 70, RIGHT = 10, TOP = 8, SAMPLING = 240, TRAINING = 26, GAP = 12;
  const HEIGHT = TOP + SAMPLING + GAP + TRAINING + 44;
  const TONES = ["build", "scale", "muted"]; // of the versions, in turn
  const number = (value, digits = 1) => value.toFixed(digits).replace("-", "−");
  const percent = (share) => `${Math.round(100 * share)} %`;

  register("async-timeline", "Samplers and a trainer in time, interactive", (panel) => {
    const state = { scheme: "synchronous", tail: 0.8, staleness: 2, samplers: 4, seed: 1 };
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img" });
    const facts = html("dl", { class: "figure-facts" });
    const note = html("p", { class: "figure-note", role: "status" });

    function ticks(end) {
      const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((size) => end / size <= 8) ?? 1000;
      return Array.from({ length: Math.floor(end / step) + 1 }, (_, at) => at * step);
    }
    function drawTimeline(shown, lasts) {
      const toX = (time) => LEFT + (time / lasts) * (WIDTH - LEFT - RIGHT);
      const lanes = state.samplers * model.SLOTS, lane = SAMPLING / lanes;
      const shapes = ticks(lasts).flatMap((tick) => [
        svg("line", { x1: toX(tick), x2: toX(tick), y1: TOP, y2: HEIGHT - 40, class: "plot-grid" }),
        svg("text", { x: toX(tick), y: HEIGHT - 24, "text-anchor": "middle" }, String(tick)),
      ]);
      TONES.forEach((tone, which) => {
        const d = shown.spans.filter(({ version }) => version % TONES.length === which).map(({ device, slot, start, end }) => {
          const y = TOP + (device * model.SLOTS + slot + 0.5) * lane;
          return `M${toX(start).toFixed(1)} ${y.toFixed(1)}H${toX(end).toFixed(1)}`;
        }).join("");
        shapes.push(svg("path", { d, class: `plot-line ${tone}`, style: `stroke-width: ${(0.8 * lane).toFixed(2)}` }));
      });
      for (const { start, end } of shown.updates) {
        shapes.push(svg("rect", { x: toX(start), y: TOP + SAMPLING + GAP, width: Math.max(0.5, toX(end) - toX(start) - 0.6), height: TRAINING, class: "plot-area break" }));
      }
      shapes.push(svg("line", { x1: toX(shown.seconds), x2: toX(shown.seconds), y1: TOP, y2: HEIGHT - 40, class: "plot-line dashed break" }));
      shapes.push(svg("text", { x: LEFT - 8, y: TOP + SAMPLING / 2, "text-anchor": "end" }, "slots"));
      shapes.push(svg("text", { x: LEFT - 8, y: TOP + SAMPLING + GAP + 17, "text-anchor": "end" }, "trainer"));
      shapes.push(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle", class: "plot-label" }, `seconds, ${model.UPDATES} updates`));
      picture.replaceChildren(...shapes);
    }
    function draw() {
      const { shown, synchronous, colocated, gain, machines } = model.run(state);
      drawTimeline(shown, Math.max(shown.seconds, synchronous.seconds));
      facts.replaceChildren(...[
        ["samples a second", number(shown.samplesPerSecond, 2)],
        ["times synchronous", number(gain, 2)],
        ["samplers idle", percent(shown.samplerIdle)],
        ["trainer idle", percent(shown.trainerIdle)],
        ["oldest token (updates)", String(shown.oldest)],
        ["mean age (updates)", number(shown.meanAge, 2)],
      ].map(([name, words]) => html("div", {}, html("dt", {}, name), html("dd", {}, words))));
      const words = `${machines.samplers} devices sample and ${machines.trainers} train: ${number(shown.samplesPerSecond, 2)} samples a second, `
        + `${number(gain, 2)} times the synchronous scheme on the same split. All ${model.DEVICES} devices in turn would reach ${number(colocated, 2)}. `
        + (shown.samplerIdle > shown.trainerIdle + 0.1 ? "The samplers wait more than the trainer." : shown.trainerIdle > shown.samplerIdle + 0.1 ? "The trainer waits more than the samplers." : "Both sides wait about equally long.");
      if (note.textContent !== words) note.textContent = words;
      picture.setAttribute("aria-label", `Timeline of ${model.UPDATES} updates, scheme ${state.scheme}: they take ${number(shown.seconds)} seconds, in the synchronous scheme ${number(synchronous.seconds)}. The samplers are idle for ${percent(shown.samplerIdle)} of the time of their slots, the trainer for ${percent(shown.trainerIdle)}.`);
      for (const [name, element] of Object.entries(choices)) element.setAttribute("aria-pressed", String(name === state.scheme));
    }
    const choices = Object.fromEntries(Object.keys(model.SCHEMES).map((name) => [name, button(name, () => { state.scheme = name; draw(); })]));
    const control = (name, label, min, max, step, format) => slider({ label, min, max, step, value: state[name], format, input: (value) => { state[name] = value; draw(); } });
    const tail = control("tail", "Tail of the lengths σ", 0, 1.6, 0.1, (value) => number(value));
    const staleness = control("staleness", "Staleness η", 0, 6, 1, String);
    const samplers = control("samplers", "Devices that sample", 1, model.DEVICES - 1, 1, (value) => `${value} of ${model.DEVICES}`);
    const other = button("Other lengths", () => { state.seed += 1; draw(); });
    draw();
    panel.append(
      html("div", { class: "figure-buttons" }, ...Object.values(choices)),
      html("div", { class: "figure-controls" }, tail.element, staleness.element, samplers.element, html("div", { class: "figure-buttons" }, other)),
      picture,
      html("p", { class: "figure-legend" }, html("span", { class: "key build" }, "tokens; the colour changes with the version of the weights"), html("span", { class: "key break" }, "an update")),
      facts, note,
    );
  });
})();
