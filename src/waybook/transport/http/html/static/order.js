// Drag pending steps of a plan into another order. The buttons do the same without a pointer.
(() => {
  const list = document.querySelector("[data-order]");
  if (!list) return;
  const form = list.closest("form"), rows = () => [...list.querySelectorAll("[data-step]")];
  const ids = () => rows().map(row => row.dataset.step).join();
  let dragged, before;
  for (const row of list.querySelectorAll("[data-movable]")) row.draggable = true;
  list.addEventListener("dragstart", event => {
    dragged = event.target.closest("[data-movable]");
    before = rows();
    dragged?.classList.add("dragged");
    event.dataTransfer.effectAllowed = "move";
  });
  list.addEventListener("dragover", event => {
    const over = event.target.closest("[data-step]");
    if (!dragged || !over) return;
    event.preventDefault();
    const box = over.getBoundingClientRect();
    if (over !== dragged) over[event.clientY < box.top + box.height / 2 ? "before" : "after"](dragged);
  });
  list.addEventListener("drop", event => {
    event.preventDefault();
    if (!dragged || ids() === before.map(row => row.dataset.step).join()) return;
    form.elements.order.value = ids();
    form.submit();
  });
  // If the user presses Escape or drops the step outside the list, restore the order.
  list.addEventListener("dragend", event => {
    if (dragged && event.dataTransfer.dropEffect === "none") list.append(...before);
    dragged?.classList.remove("dragged");
    dragged = null;
  });
})();
