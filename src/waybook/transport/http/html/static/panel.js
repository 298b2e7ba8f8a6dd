// Panel with a part of another page: it gets the focus, and gives it back when it is closed.
"use strict";
(() => {
  let opener;
  const panel = () => document.querySelector("#panel:not(:empty)");
  const close = () => {
    panel()?.replaceChildren();
    opener?.focus();
  };
  addEventListener("htmx:afterSwap", ({ detail }) => {
    if (detail.target.id != "panel") return;
    opener = detail.requestConfig.elt;
    detail.target.scrollTop = 0;
    detail.target.querySelector("h1")?.focus();
  });
  addEventListener("click", ({ target }) => target.closest?.("[data-close]") && close());
  addEventListener("keydown", ({ key }) => key == "Escape" && panel() && close());
})();
