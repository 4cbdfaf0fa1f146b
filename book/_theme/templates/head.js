(function () {
  // Before the first paint: the remembered colours, or those of the system.
  var root = document.documentElement, choice = null;
  try { choice = localStorage.getItem("book-theme"); } catch (error) { /* storage may be closed */ }
  var dark = choice === "dark" || (choice !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.themeChoice = choice || "system";
  root.dataset.theme = dark ? "dark" : "light";
  root.classList.add("js");
  // Fonts early, so that nothing moves when they come; from the disk a preload is refused.
  if (location.protocol.indexOf("http") !== 0) return;
  ["source-serif-4", "source-sans-3"].forEach(function (name) {
    var link = document.createElement("link");
    link.rel = "preload"; link.as = "font"; link.type = "font/woff2"; link.crossOrigin = "";
    link.href = "{{ root }}assets/fonts/" + name + ".woff2";
    document.head.appendChild(link);
  });
})();
