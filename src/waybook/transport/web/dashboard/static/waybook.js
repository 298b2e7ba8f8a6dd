// The little that pages do by themselves; without it they work all the same.
"use strict";
(() => {
  const doc = document, find = s => doc.querySelector(s);
  doc.documentElement.classList.add("js");

  // A button copies the text that is folded beside it; where that is not allowed, it shows it.
  doc.addEventListener("click", async event => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const folded = button.nextElementSibling, name = button.textContent;
    try {
      await navigator.clipboard.writeText(folded.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => button.textContent = name, 2000);
    } catch {
      folded.classList.remove("unscripted");
      folded.open = true;
    }
  });

  // What somebody types, or has just been told, is not swept away by news.
  doc.addEventListener("htmx:beforeRequest", event => {
    const live = event.detail.elt;
    if (!live.dataset.live) return;
    const busy = text => text.value || text === doc.activeElement;
    if (!live.querySelector(".outcome") && ![...live.querySelectorAll("textarea")].some(busy)) return;
    event.preventDefault();
    for (const news of live.querySelectorAll("[data-news]")) news.hidden = false;
  });

  // Keys, never while somebody types.
  const GO = {p: "/", i: "/inbox", r: "/runs"};
  let waits = 0;
  const move = way => {
    const items = [...doc.querySelectorAll("[data-item]")], at = items.indexOf(doc.activeElement);
    const next = items[at < 0 ? (way > 0 ? 0 : items.length - 1) : at + way];
    if (next) next.focus();
  };
  doc.addEventListener("keydown", event => {
    const key = event.key;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input,textarea,select,dialog,[contenteditable]")) return;
    const place = Date.now() - waits < 1500 && GO[key], filter = find("[data-filter]");
    waits = key === "g" ? Date.now() : 0;
    if (place) location.href = place;
    else if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
    else if (key === "/" && filter) filter.focus();
    else if (key === "?") find("#keys").showModal();
    else return;
    event.preventDefault();
  });
})();
// A map too large for its window shows where things stand.
for (const map of document.querySelectorAll(".map[data-centre]")) {
  const box = map.querySelector(`[data-step="${map.dataset.centre}"]`)?.getBoundingClientRect();
  const seen = map.getBoundingClientRect();
  if (box) map.scrollBy(box.x + box.width / 2 - seen.x - seen.width / 2, box.y + box.height / 2 - seen.y - seen.height / 2);
}
