// Optional page behavior: every page also works without scripts.
"use strict";
(() => {
  const doc = document, find = s => doc.querySelector(s);
  doc.documentElement.classList.add("js");

  // Copy the collapsed text next to the button; show it if copying is not allowed.
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

  // Keyboard shortcuts, ignored while the user types.
  const GO = {o: "/", p: "/plans", i: "/inbox", r: "/runs"};
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
// Scroll a map that is larger than its window to the current step.
for (const map of document.querySelectorAll(".map[data-centre]")) {
  const box = map.querySelector(`[data-step="${map.dataset.centre}"]`)?.getBoundingClientRect();
  const seen = map.getBoundingClientRect();
  if (box) map.scrollBy(box.x + box.width / 2 - seen.x - seen.width / 2, box.y + box.height / 2 - seen.y - seen.height / 2);
}

// Live updates: elements whose topics changed are fetched again.
(() => {
  const mark = document.getElementById("live"), changed = new Set(), shared = self.SharedWorker;
  let at = mark.dataset.at, port, timer, last = 0, kept = [];
  const flush = () => {
    timer = 0;
    if (document.hidden) return;
    last = Date.now();
    let hit;
    for (const part of document.querySelectorAll("[data-live]"))
      if (["*", ...part.dataset.live.split(" ")].some(topic => changed.has(topic)) && !hit?.contains(part))
        (hit = part).dispatchEvent(new Event("live"));
    changed.clear();
  };
  const later = () => {
    if (changed.size) timer ||= setTimeout(flush, Math.max(40, last + 400 - Date.now()));
  };
  const hear = ({ data }) => {
    at = data.at;
    const word = data.up ? "live" : "reconnecting";
    if (mark.textContent != word) mark.textContent = mark.dataset.state = word;
    mark.hidden = false;
    dispatchEvent(new CustomEvent("news", { detail: data.topics }));
    for (const topic of data.topics.split(" ")) changed.add(changed.size > 99 ? "*" : topic);
    later();
  };
  const start = () => {
    if (port || (document.hidden && !shared)) return;
    port = shared ? new shared(mark.dataset.worker).port : new Worker(mark.dataset.worker);
    port.onmessage = hear;
    port.postMessage(at);
  };
  const stop = () => {
    port?.postMessage("");
    port?.terminate?.();
    port = null;
  };
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  document.addEventListener("visibilitychange", () => {
    if (!shared) document.hidden ? stop() : start();
    later();
  });
  start();

  // Keep what the user typed, opened or scrolled to.
  const keep = (old, ...names) => kept.push([old.id, Object.fromEntries(names.map(name => [name, old[name]]))]);
  addEventListener("htmx:beforeSwap", ({ detail }) => {
    const part = detail.target, focus = document.activeElement;
    if (detail.requestConfig.triggeringEvent?.type != "live") return;
    const fresh = new DOMParser().parseFromString(detail.serverResponse, "text/html");
    // A fragment may include its enclosing element or not.
    if (!fresh.getElementById(part.id)) detail.swapOverride = "innerHTML", detail.selectOverride = "unset";
    // Keep a status message until the user has read it.
    let lost = part.querySelector(".outcome");
    for (const old of part.querySelectorAll("input:not([type=hidden]),textarea,select,details[id],.map[id]")) {
      const now = fresh.getElementById(old.id);
      // Edited by the user, or returned with an error and therefore already in the page.
      if (old.ariaInvalid || (now && old.value && !now.value) || (old.options
        ? (old.querySelector("[selected]") || old.options[0]) != old.selectedOptions[0]
        : old.value != old.defaultValue || old.checked != old.defaultChecked)) {
        keep(old, "value", "checked");
        // The field may be gone; its text must not be lost.
        lost ||= !now;
      }
      if (old == focus && old.selectionEnd != null) keep(old, "selectionStart", "selectionEnd");
      keep(old, "open", "scrollTop", "scrollLeft");
    }
    if (lost) {
      part.dataset.stale = "";
      detail.shouldSwap = false;
      kept = [];
    }
  });
  addEventListener("htmx:afterSettle", () => {
    for (const [id, values] of kept) Object.assign(document.getElementById(id) || {}, values);
    kept = [];
  });
})();
