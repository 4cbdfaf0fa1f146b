// A film waits for a press, or is playing and can be stopped. For who asks for less motion all stand still.
(function () {
  "use strict";
  const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let turn = 0;

  // A new address of the same film: under the old one it would go on where it was, or stand at its end.
  async function again(film) {
    turn += 1;
    if (!film.startsWith("data:")) return `${film}?turn=${turn}`;
    return URL.createObjectURL(await (await fetch(film)).blob());
  }

  document.querySelectorAll(".film").forEach((place) => {
    const image = place.querySelector("img"), source = place.querySelector("source");
    const still = source?.srcset ?? image.src, film = place.dataset.film ?? image.src;
    const { seconds, kilobytes } = place.dataset;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "figure-button";
    let clock = 0;

    function show(address) {
      source?.remove();
      image.src = address;
    }
    function stand(words) {
      clearTimeout(clock);
      clock = 0;
      button.textContent = words;
    }
    function run() {
      button.textContent = "Stop the film";
      clock = setTimeout(() => stand("Play again"), 1000 * Math.min(Number(seconds), 600));
    }
    button.addEventListener("click", async () => {
      if (clock) { show(still); stand("Play the film"); return; }
      run();
      show(await again(film));
    });
    if (source && !reduced) run();
    else stand(kilobytes ? `Play the film (${kilobytes} kB)` : "Play the film");
    const line = place.querySelector(".film-line");
    if (line) line.prepend(button);
    else place.append(button);
  });
})();
