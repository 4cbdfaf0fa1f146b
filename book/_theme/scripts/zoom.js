// A picture can be enlarged: by a press on it, or by Enter on it. It then shows in full size and scrolls.
(function () {
  "use strict";
  const dialog = document.createElement("dialog");
  dialog.className = "zoom";
  dialog.setAttribute("aria-label", "Enlarged figure");
  const close = document.createElement("button");
  close.type = "button";
  close.className = "figure-button";
  close.textContent = "Close";
  const view = document.createElement("div");
  view.className = "zoom-view";
  view.tabIndex = 0;
  view.setAttribute("role", "group");
  view.setAttribute("aria-label", "The figure; scrolls");
  dialog.append(close, view);
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  document.querySelectorAll("main img.picture").forEach((image) => {
    if (image.closest("a, .card, .interactive, .film")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "zoom-button";
    button.setAttribute("aria-label", `Enlarge the figure: ${image.alt}`);
    image.replaceWith(button);
    button.append(image);
    button.addEventListener("click", () => {
      const copy = image.cloneNode();
      copy.removeAttribute("style");
      copy.loading = "eager";
      view.replaceChildren(copy);
      dialog.showModal();
    });
  });
})();
