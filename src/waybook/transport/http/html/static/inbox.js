// Keyboard decisions in the inbox. A key only moves the focus; Enter decides.
(() => {
  const doc = document, go = card => card?.querySelector("[data-item]").focus();
  const next = card => {
    const all = [...doc.querySelectorAll(".decision")];
    return [...all.slice(all.indexOf(card) + 1), ...all].find(other => other != card && other.matches(".attention"));
  };
  doc.addEventListener("keydown", event => {
    const key = event.key, focus = doc.activeElement, card = focus.closest(".decision");
    const chord = event.ctrlKey || event.metaKey;
    const pick = query => (card?.matches(".attention") ? card : next(card))?.querySelector(query);
    if (event.altKey || event.isComposing) return;
    if (card && focus.matches("textarea")) {
      if (key === "Escape") go(card);
      // `:not([name])` excludes the Approve button, which has a name.
      if (key === "Enter" && chord) pick("[value=modify],.good:not([name])")?.click();
      return;
    }
    if (chord || focus.closest("dialog,input:not([type=checkbox])")) return;
    // Before j or k moves along the list, focus the card itself.
    if (key === "j" || key === "k") go(card);
    if (key === "n") go(next(card));
    if (key === "a") pick("[value=approve]")?.focus();
    if (key !== "m") return;
    // Without this, the m would be typed into the text field.
    event.preventDefault();
    pick("textarea")?.focus();
  }, true);

  // Continue with the next card after a decision.
  addEventListener("htmx:afterSettle", ({ target }) => {
    if (target.querySelector(".outcome") && doc.activeElement === doc.body) go(next(target));
  });
  // The selection has been sent, so no input is lost if a card disappears now.
  addEventListener("htmx:beforeSend", ({ target }) => target.id === "bulk" && target.reset());
})();
