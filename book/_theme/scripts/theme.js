// Light, dark, or as the system has it; the choice is remembered.
(function () {
  "use strict";
  const root = document.documentElement;
  const button = document.querySelector("[data-switch-theme]");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const NAMES = { system: "as the system", light: "light", dark: "dark" };

  function next(choice) {
    // The first press always changes what is seen.
    const other = system.matches ? ["light", "dark"] : ["dark", "light"];
    return { system: other[0], [other[0]]: other[1], [other[1]]: "system" }[choice];
  }

  function apply(choice) {
    root.dataset.themeChoice = choice;
    root.dataset.theme = choice === "system" ? (system.matches ? "dark" : "light") : choice;
    button.setAttribute("aria-label", `Colours: ${NAMES[choice]}. Change to ${NAMES[next(choice)]}`);
    button.title = `Colours: ${NAMES[choice]}`;
    document.dispatchEvent(new CustomEvent("book-theme"));
  }

  button.addEventListener("click", () => {
    const choice = next(root.dataset.themeChoice);
    try {
      if (choice === "system") localStorage.removeItem("book-theme");
      else localStorage.setItem("book-theme", choice);
    } catch (error) { /* storage may be closed: the choice then lasts for this page */ }
    apply(choice);
  });
  system.addEventListener("change", () => apply(root.dataset.themeChoice));
  apply(root.dataset.themeChoice);
})();
