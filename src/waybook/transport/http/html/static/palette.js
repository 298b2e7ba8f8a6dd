// Command palette: a dialog with a search field and a list of options, which the server renders.
const DELAY = 120;
const dialog = document.createElement("dialog");
dialog.id = "palette";
dialog.setAttribute("aria-label", "Search and commands");
dialog.innerHTML = `<input id="palette-text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" aria-label="Search or command" placeholder="Search or command" maxlength="500" autocomplete="off" spellcheck="false">
<div id="palette-list" role="listbox" aria-label="Results" tabindex="-1"></div><p id="palette-status" class="muted" role="status"></p>`;
const [input, list, status] = dialog.children;
let timer, pending, active = 0;

const options = () => [...list.querySelectorAll("[role=option]")];
const select = place => {
  const all = options();
  for (const option of all) option.ariaSelected = "false";
  active = all.length ? (place + all.length) % all.length : 0;
  const chosen = all[active];
  if (!chosen) return input.removeAttribute("aria-activedescendant");
  chosen.ariaSelected = "true";
  input.setAttribute("aria-activedescendant", chosen.id);
  chosen.scrollIntoView({ block: "nearest" });
};
const show = html => {
  list.innerHTML = html;
  const all = options();
  all.forEach((option, number) => option.id = `palette-option-${number}`);
  status.textContent = all.length === 1 ? "1 result" : `${all.length} results`;
  select(0);
};
const load = async () => {
  pending?.abort();
  const request = pending = new AbortController();
  const text = input.value;
  try {
    const reply = await fetch("/search?" + new URLSearchParams({ part: "options", q: text }), { signal: request.signal });
    const html = await reply.text();
    if (request.signal.aborted) return;
    // The session may have ended, or the server may be busy; the search page tells the user which.
    if (reply.ok && !reply.redirected) show(html);
    else status.textContent = "No results: the server did not answer. Press Enter to try the search page.";
    dialog.dataset.shown = text;
  } catch (error) {
    if (error.name != "AbortError") status.textContent = "The server cannot be reached.";
  }
};
input.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(load, DELAY);
});
input.addEventListener("keydown", event => {
  if (event.isComposing) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) select(active + step);
  else if (event.key == "Enter") {
    const chosen = dialog.dataset.shown == input.value && options()[active];
    // If the options for the typed text are not there yet, open the search page.
    if (chosen) chosen.click();
    else location.href = "/search?" + new URLSearchParams({ q: input.value });
  } else return;
  event.preventDefault();
});
list.addEventListener("mousemove", event => {
  const place = options().indexOf(event.target.closest("[role=option]"));
  if (place >= 0 && place != active) select(place);
});
// Close the dialog on a click outside its content, which hits the dialog element itself.
dialog.addEventListener("click", event => {
  if (event.target == dialog || event.target.closest("a")) dialog.close();
});
dialog.addEventListener("close", () => {
  clearTimeout(timer);
  pending?.abort();
});

const styles = Promise.all(["asset:search.css", "asset:palette.css"].map(href => new Promise(done => {
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href, onload: done, onerror: done });
  document.head.append(link);
})));
document.body.append(dialog);

// Open the palette, or close it if it is open. `typed` returns the text that was typed meanwhile.
export const toggle = async typed => {
  await styles;
  const text = typed();
  if (dialog.open) return dialog.close();
  // Only one dialog can be modal at a time.
  document.querySelector("dialog[open]")?.close();
  input.value = text;
  dialog.showModal();
  input.focus();
  load();
};
