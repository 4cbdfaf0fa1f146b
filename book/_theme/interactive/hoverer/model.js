// A craft that can only push itself up, a controller of three numbers, and a search for what a reward asks for.
(function (root) {
  "use strict";

  const GRAVITY = 9.81, STRONGEST = 20, TARGET = 1; // m/s², m/s², m
  const STEP_S = 0.05, STEPS = 100;
  const STARTS = [0, 0.5, 1.5, 2]; // m, at rest
  const NEAR_M = 0.1, SLOW_M_S = 0.2; // what is wanted: to be this near and this slow
  const SEARCH = { candidates: 120, kept: 20, mean: [0, 0, 0], spread: [10, 10, 5], least: 0.02 };
  const BY_HAND = [GRAVITY, 20, 6]; // a controller that does what is wanted, to compare with

  // A repeatable generator of numbers in [0, 1): Mulberry32.
  function generator(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }
  const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

  // base + stiffness · (target − height) − damping · speed, as far as the engine can.
  function thrust([base, stiffness, damping], height, speed) {
    return Math.min(STRONGEST, Math.max(0, base + stiffness * (TARGET - height) - damping * speed));
  }

  // One flight of five seconds: heights (m), and per second the mean of each cost and of the time spent as wanted.
  function fly(controller, start) {
    let height = start, speed = 0, off = 0, fuel = 0, fast = 0, wanted = 0;
    const heights = [height];
    for (let step = 0; step < STEPS; step += 1) {
      const push = thrust(controller, height, speed);
      speed += (push - GRAVITY) * STEP_S;
      height += speed * STEP_S;
      fuel += push / GRAVITY;
      fast += speed * speed;
      if (height <= 0) { height = 0; speed = Math.max(0, speed); } // on the ground
      off += Math.abs(height - TARGET);
      wanted += Math.abs(height - TARGET) < NEAR_M && Math.abs(speed) < SLOW_M_S ? 1 : 0;
      heights.push(height);
    }
    return { heights, off: off / STEPS, fuel: fuel / STEPS, fast: fast / STEPS, wanted: wanted / STEPS };
  }

  // Means over all starts, and the reward a second: minus the weighted sum of the costs.
  function judge(controller, weights) {
    const flights = STARTS.map((start) => fly(controller, start));
    const mean = (name) => flights.reduce((sum, flight) => sum + flight[name], 0) / flights.length;
    const [off, fuel, fast, wanted] = ["off", "fuel", "fast", "wanted"].map(mean);
    return { reward: -(weights.height * off + weights.fuel * fuel + weights.speed * fast), off, fuel, fast, wanted, flights };
  }

  const newSearch = () => ({ mean: [...SEARCH.mean], spread: [...SEARCH.spread], iteration: 0 });

  // One iteration of the cross-entropy method: draw controllers, keep the best, and draw around them next.
  function improve(search, weights, random) {
    const drawn = Array.from({ length: SEARCH.candidates }, () => search.mean.map((value, at) => value + search.spread[at] * normal(random)));
    const kept = drawn.map((controller) => ({ controller, reward: judge(controller, weights).reward }))
      .sort((one, other) => other.reward - one.reward).slice(0, SEARCH.kept).map(({ controller }) => controller);
    const mean = search.mean.map((_, at) => kept.reduce((sum, controller) => sum + controller[at], 0) / kept.length);
    const spread = mean.map((middle, at) => Math.max(SEARCH.least, Math.sqrt(kept.reduce((sum, controller) => sum + (controller[at] - middle) ** 2, 0) / kept.length)));
    return { mean, spread, iteration: search.iteration + 1 };
  }

  const model = { GRAVITY, TARGET, BY_HAND, STEP_S, STEPS, STARTS, generator, thrust, fly, judge, newSearch, improve };
  if (typeof module !== "undefined") module.exports = model;
  else root.hovererModel = model;
})(typeof globalThis !== "undefined" ? globalThis : this);
