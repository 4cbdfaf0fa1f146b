(function () {
  // Before the first paint: the remembered colours, or those of the system.
  var root = document.documentElement, choice = null;
  try { choice = localStorage.getItem("book-theme"); } catch (error) { /* storage may be closed */ }
  var dark = choice === "dark" || (choice !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.themeChoice = choice || "system";
  root.dataset.theme = dark ? "dark" : "light";
  root.classList.add("js");
})();
