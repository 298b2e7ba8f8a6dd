// Keys and forms of the inbox. A key only moves the focus or opens an item; Enter decides.
(() => {
  const doc = document, pick = query => doc.querySelector("#pane " + query);
  doc.addEventListener("keydown", event => {
    const key = event.key, focus = doc.activeElement, chord = event.ctrlKey || event.metaKey;
    if (event.altKey || event.isComposing) return;
    if (focus.matches("textarea")) {
      if (key === "Escape") pick("h2")?.focus();
      if (key === "Enter" && chord) pick("[value=modify],.main:not([name])")?.click();
      return;
    }
    if (chord || focus.closest("dialog,input:not([type=checkbox])")) return;
    const way = { j: "[rel=next]", n: "[rel=next]", k: "[rel=prev]" }[key];
    if (way) pick(way)?.click();
    else if (key === "a") pick(".main")?.focus();
    else if (key === "m") pick("textarea")?.focus();
    else return;
    // The m must not be typed into the field, and j and k do not move along the links.
    event.preventDefault();
    event.stopPropagation();
  }, true);

  // While a decision is sent or an item loads, no live update replaces the page; it comes after.
  let busy, missed;
  addEventListener("htmx:beforeRequest", event => {
    if (!event.target.closest("#inbox")) return;
    const live = event.target.id === "inbox";
    if (busy) event.preventDefault(), missed ||= live;
    else if (!live) busy = event.detail.xhr;
  });
  doc.addEventListener("htmx:beforeSwap", event => {
    if (!busy || event.detail.xhr === busy || event.target.id !== "inbox") return;
    event.detail.shouldSwap = false;
    missed = true;
    event.stopPropagation();
  }, true);
  addEventListener("htmx:afterRequest", ({ detail }) => {
    if (detail.xhr !== busy) return;
    if (missed) setTimeout(() => doc.getElementById("inbox").dispatchEvent(new Event("live")));
    busy = missed = null;
  });
  // The selection has been sent, so no input is lost if an item disappears now.
  addEventListener("htmx:beforeSend", ({ target }) => target.id === "bulk" && target.reset());
  // Continue with the item that has opened.
  addEventListener("htmx:afterSettle", ({ detail }) => {
    const live = detail.requestConfig?.triggeringEvent?.type === "live";
    if (!live && doc.activeElement === doc.body) pick("h2")?.focus();
  });
})();
