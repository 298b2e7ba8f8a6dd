// Pages of plans and runs: the map, and the panel beside a list.

// Zoom, pan, fit and minimap of a map. Without this script the map scrolls.
"use strict";
(() => {
  const MIN = .1, MAX = 4, MARK = "http://www.w3.org/2000/svg";
  let scale = 1, drag = null, moved = false;
  const touches = new Map();
  const find = () => document.querySelector(".map.zoomable");
  const drawing = map => map.querySelector("svg.waymap");
  const size = svg => svg.viewBox.baseVal;

  // Scale the drawing, and keep the point at (x, y) of the window where it is.
  const zoom = (map, wanted, x = map.clientWidth / 2, y = map.clientHeight / 2) => {
    const svg = drawing(map), box = size(svg), old = scale;
    scale = Math.min(MAX, Math.max(MIN, wanted));
    svg.setAttribute("width", box.width * scale);
    svg.setAttribute("height", box.height * scale);
    map.scrollLeft = (map.scrollLeft + x) * scale / old - x;
    map.scrollTop = (map.scrollTop + y) * scale / old - y;
    const level = document.querySelector("[data-zoom-level]");
    if (level) level.textContent = `${Math.round(scale * 100)} %`;
    frame(map);
  };
  const fit = map => {
    const box = size(drawing(map));
    zoom(map, Math.min(map.clientWidth / box.width, map.clientHeight / box.height));
  };
  const ACTS = {
    in: map => zoom(map, scale * 1.25),
    out: map => zoom(map, scale / 1.25),
    fit,
    full: map => zoom(map, 1),
  };
  const KEYS = { "+": "in", "=": "in", "-": "out", 0: "fit", 1: "full" };

  // The minimap has few elements: one path for each status, and a frame around the visible part.
  const minimap = map => {
    const svg = drawing(map), box = size(svg), small = document.createElementNS(MARK, "svg");
    const paths = {};
    for (const rect of svg.querySelectorAll(".frame"))
      (paths.frame ||= []).push(`M${rect.x.baseVal.value} ${rect.y.baseVal.value}h${rect.width.baseVal.value}v${rect.height.baseVal.value}h-${rect.width.baseVal.value}z`);
    for (const step of svg.querySelectorAll(".step")) {
      const at = step.transform.baseVal.consolidate().matrix, rect = step.querySelector("rect");
      const w = rect.width.baseVal.value, h = rect.height.baseVal.value;
      (paths[step.dataset.status] ||= []).push(`M${at.e} ${at.f}h${w}v${h}h-${w}z`);
    }
    for (const [status, parts] of Object.entries(paths)) {
      const path = document.createElementNS(MARK, "path");
      path.setAttribute("d", parts.join(""));
      path.dataset.status = status;
      small.append(path);
    }
    small.append(document.createElementNS(MARK, "rect"));
    small.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    small.setAttribute("class", "minimap");
    small.setAttribute("aria-hidden", "true");
    if (map.nextElementSibling?.matches(".minimap")) map.nextElementSibling.remove();
    map.after(small);
    const go = event => {
      const area = small.getBoundingClientRect(), ratio = Math.min(area.width / box.width, area.height / box.height);
      const left = (area.width - box.width * ratio) / 2, top = (area.height - box.height * ratio) / 2;
      map.scrollLeft = (event.clientX - area.x - left) / ratio * scale - map.clientWidth / 2;
      map.scrollTop = (event.clientY - area.y - top) / ratio * scale - map.clientHeight / 2;
    };
    small.addEventListener("pointerdown", event => {
      small.setPointerCapture(event.pointerId);
      go(event);
    });
    small.addEventListener("pointermove", event => event.buttons && go(event));
  };
  const frame = map => {
    const small = map.nextElementSibling, seen = small?.querySelector?.("rect");
    if (!seen) return;
    const box = size(drawing(map)), width = map.clientWidth / scale, height = map.clientHeight / scale;
    small.classList.toggle("whole", width >= box.width && height >= box.height);
    seen.setAttribute("x", map.scrollLeft / scale);
    seen.setAttribute("y", map.scrollTop / scale);
    seen.setAttribute("width", Math.min(width, box.width));
    seen.setAttribute("height", Math.min(height, box.height));
  };

  const distance = () => {
    const [one, other] = touches.values();
    return Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
  };
  const start = map => {
    if (!map || map.dataset.ready) return;
    map.dataset.ready = "1";
    const kept = scale;
    scale = 1;
    minimap(map);
    zoom(map, kept, 0, 0);
    // A live update replaces single boxes, so draw the minimap again.
    new MutationObserver(() => {
      minimap(map);
      frame(map);
    }).observe(map, { childList: true, subtree: true });
    map.addEventListener("scroll", () => frame(map), { passive: true });
    map.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const area = map.getBoundingClientRect();
      zoom(map, scale * Math.exp(-event.deltaY / 300), event.clientX - area.x, event.clientY - area.y);
    }, { passive: false });
    map.addEventListener("keydown", event => {
      if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      ACTS[KEYS[event.key]](map);
    });
    map.addEventListener("pointerdown", event => {
      moved = false;
      if (event.pointerType == "mouse") {
        if (event.button == 0) drag = { x: event.clientX, y: event.clientY, left: map.scrollLeft, top: map.scrollTop };
      } else touches.set(event.pointerId, event);
    });
    map.addEventListener("pointermove", event => {
      if (drag && event.buttons) {
        const x = event.clientX - drag.x, y = event.clientY - drag.y;
        moved ||= Math.hypot(x, y) > 4;
        map.scrollTo(drag.left - x, drag.top - y);
      } else if (touches.has(event.pointerId)) {
        const before = touches.size == 2 && distance();
        touches.set(event.pointerId, event);
        if (before) {
          const area = map.getBoundingClientRect(), [one, other] = touches.values();
          zoom(map, scale * distance() / before, (one.clientX + other.clientX) / 2 - area.x, (one.clientY + other.clientY) / 2 - area.y);
        }
      }
    });
    // Two fingers zoom; without this the browser would take the gesture for scrolling.
    map.addEventListener("touchmove", event => event.touches.length > 1 && event.preventDefault(), { passive: false });
    // Do not open the link under the pointer at the end of a drag; for a key press, `detail` is 0.
    map.addEventListener("click", event => moved && event.detail && event.preventDefault(), true);
    map.addEventListener("dragstart", event => event.preventDefault());
  };
  for (const end of ["pointerup", "pointercancel"])
    addEventListener(end, event => {
      drag = null;
      touches.delete(event.pointerId);
    });
  document.addEventListener("click", event => {
    const button = event.target.closest("[data-zoom]"), map = find();
    if (button && map) ACTS[button.dataset.zoom](map);
  });
  addEventListener("resize", () => find() && frame(find()));
  for (const change of ["htmx:afterSwap", "htmx:afterProcessNode"])
    addEventListener(change, () => start(find()));
  start(find());
})();

// Scroll a map that is larger than its window to the current step.
for (const map of document.querySelectorAll(".map[data-centre]")) {
  const box = map.querySelector(`[data-step="${map.dataset.centre}"]`)?.getBoundingClientRect();
  const seen = map.getBoundingClientRect();
  if (box) map.scrollBy(box.x + box.width / 2 - seen.x - seen.width / 2, box.y + box.height / 2 - seen.y - seen.height / 2);
}

// Panel with a part of another page: it gets the focus, and gives it back when it is closed.
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
