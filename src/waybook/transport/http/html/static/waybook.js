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
      await navigator.clipboard.writeText((folded || button.parentNode).querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => button.textContent = name, 2000);
    } catch {
      folded?.classList.remove("unscripted");
      if (folded) folded.open = true;
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
  // Load the palette when it is first used, and pass it the text typed while it loads.
  const palette = event => {
    let typed = "";
    const hear = event => {
      if (event.ctrlKey || event.metaKey || event.key.length > 1) return;
      typed += event.key;
      event.preventDefault();
      event.stopPropagation();
    };
    event.preventDefault();
    addEventListener("keydown", hear, true);
    import("asset:palette.js").then(({ toggle }) => toggle(() => {
      removeEventListener("keydown", hear, true);
      return typed;
    })).catch(() => location.href = "/search");
  };
  doc.addEventListener("click", event => {
    if (!event.ctrlKey && !event.metaKey && event.target.closest(".side [href='/search'],.top [href='/search']")) palette(event);
  });
  doc.addEventListener("keydown", event => {
    const key = event.key;
    if (key == "k" && (event.ctrlKey || event.metaKey)) palette(event);
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input,textarea,select,dialog,[contenteditable]")) return;
    const place = Date.now() - waits < 1500 && GO[key], filter = find("[data-filter]");
    waits = key == "g" ? Date.now() : 0;
    // An action of the row or page; a button waits for Enter.
    const keyed = `[aria-keyshortcuts="${CSS.escape(key)}"]`;
    const act = doc.activeElement.closest("li,tr")?.querySelector(keyed) || find(keyed + ":not(li *,tr *)");
    if (place) location.href = place;
    else if (key == "j" || key == "k") move(key == "j" ? 1 : -1);
    else if (key == "/" && filter) filter.focus();
    else if (key == "?") find("#keys").showModal();
    else if (act) act.href ? act.click() : act.focus();
    else return;
    event.preventDefault();
  });
})();
// Live updates: fetch the elements again whose topics (such as `inbox`) have changed.
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
    if (changed.size) timer ||= setTimeout(flush, Math.max(40, last + 200 - Date.now()));
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

  // Remember what the user typed, opened or scrolled to; return whether an update would lose it.
  const keep = (old, ...names) => kept.push([old.id, Object.fromEntries(names.map(name => [name, old[name]]))]);
  const preserve = (part, fresh) => {
    const focus = document.activeElement;
    // Keep a status message until the user has read it.
    let lost = part.querySelector(".outcome");
    for (const old of part.querySelectorAll("input:not([type=hidden]),textarea,select,details[id],.map[id]")) {
      const now = fresh.getElementById(old.id);
      // The user edited the field, or a form with an error has put its text back.
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
    return lost;
  };
  const restore = () => {
    for (const [id, values] of kept) Object.assign(document.getElementById(id) || {}, values);
    kept = [];
  };
  const isLive = detail => (detail.triggeringEvent || detail.requestConfig?.triggeringEvent)?.type == "live";
  // Tell the server which version is shown, so that it returns only the fragments that changed.
  addEventListener("htmx:configRequest", ({ detail }) => {
    if (isLive(detail) && detail.elt.dataset.version) detail.headers["waybook-version"] = detail.elt.dataset.version;
  });
  const replace = (part, fresh, version) => {
    part.dataset.version = version;
    for (const { content, dataset } of fresh.querySelectorAll("[data-fragment]")) {
      const old = document.getElementById(dataset.fragment), now = content.getElementById(dataset.fragment);
      const focused = old?.contains(document.activeElement) && document.activeElement;
      if (!old || !now || preserve(old, content)) {
        // This fragment cannot be replaced, so fetch the whole part with the next change.
        part.dataset.stale = part.dataset.version = "";
        kept = [];
        continue;
      }
      old.replaceWith(now);
      htmx.process(now);
      // Focus the same element again; a link has no id, so find it by its address.
      if (focused) (document.getElementById(focused.id) || now.parentNode.querySelector(`[href="${focused.getAttribute("href")}"]`))?.focus();
      restore();
    }
  };
  addEventListener("htmx:beforeSwap", ({ detail }) => {
    const part = detail.target;
    if (!isLive(detail)) return;
    const fresh = new DOMParser().parseFromString(detail.serverResponse, "text/html");
    const version = detail.xhr.getResponseHeader("waybook-version");
    if (version) {
      detail.shouldSwap = false;
      return replace(part, fresh, version);
    }
    // The response may or may not include the element that encloses the part.
    if (!fresh.getElementById(part.id)) detail.swapOverride = "innerHTML", detail.selectOverride = "unset";
    if (preserve(part, fresh)) {
      part.dataset.stale = "";
      detail.shouldSwap = false;
      kept = [];
    }
  });
  addEventListener("htmx:afterSettle", restore);
})();

// Keep ages current, show times in the local zone, and the number of waiting items in the title.
(() => {
  const MINUTE = 60, HOUR = 3600, DAY = 86400, since = new WeakMap();
  const whole = (seconds, unit) => seconds / unit | 0;
  const pair = (seconds, large, small, names) => {
    const rest = whole(seconds % large, small);
    return whole(seconds, large) + " " + names[0] + (rest ? " " + rest + " " + names[1] : "");
  };
  // Both functions format as the server does.
  const elapsed = s => s < MINUTE ? s + " s" : s < HOUR ? whole(s, MINUTE) + " min"
    : s < DAY ? pair(s, HOUR, MINUTE, ["h", "min"]) : pair(s, DAY, HOUR, ["d", "h"]);
  const age = s => s < 2 ? "just now" : s < MINUTE ? s + "s ago"
    : s < HOUR ? whole(s, MINUTE) + " min ago" : s < DAY ? whole(s, HOUR) + " h ago"
    : s < 2 * DAY ? "yesterday" : whole(s, DAY) + " days ago";
  // The server sends ages, so that a wrong clock of the browser does not matter.
  const STYLES = {minute: {dateStyle: "medium", timeStyle: "short"}, day: {dateStyle: "medium"}, time: {timeStyle: "short"}};
  const local = tag => new Date(tag.dateTime).toLocaleString([], STYLES[tag.dataset.local] || STYLES.minute);
  const tick = () => {
    if (document.hidden) return;
    for (const tag of document.querySelectorAll("time[data-local]")) {
      tag.textContent = local(tag);
      delete tag.dataset.local;
    }
    for (const tag of document.querySelectorAll("time[data-age]")) {
      if (!since.has(tag)) since.set(tag, Date.now() - 1000 * tag.dataset.age);
      const seconds = whole(Date.now() - since.get(tag), 1000);
      const text = ("elapsed" in tag.dataset ? elapsed : age)(seconds);
      if (text != tag.textContent) tag.textContent = text;
    }
  };
  tick();
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
  addEventListener("mouseover", ({ target }) => {
    const tag = target.closest?.("time[data-age]");
    if (tag && !tag.title.includes("(")) tag.title = `${local(tag)} (${tag.title})`;
  });
  addEventListener("htmx:afterSettle", () => {
    tick();
    const waiting = document.getElementById("waiting")?.textContent;
    document.title = (waiting ? `(${waiting}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  });
})();
