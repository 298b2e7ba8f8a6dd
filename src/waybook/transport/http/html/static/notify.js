// A notification when more items need the user, if the user asked for it and the page is hidden.
"use strict";
(() => {
  const KEY = "waybook.notify", button = document.getElementById("notify");
  const count = text => +text || 0, shown = () => count(document.getElementById("waiting")?.textContent);
  const wanted = () => self.Notification?.permission == "granted" && localStorage.getItem(KEY);
  let known = shown(), asked = 0;
  const show = waiting => {
    document.title = (waiting ? `(${waiting}) ` : "") + document.title.replace(/^\(\d+\) /, "");
    if (waiting > known && document.hidden && wanted())
      new Notification("Waybook", { tag: "waybook", body: waiting == 1 ? "1 item needs you." : `${waiting} items need you.` });
    known = waiting;
  };
  addEventListener("htmx:afterSettle", () => show(shown()));
  // A hidden page fetches nothing but this number, at most every five seconds.
  addEventListener("news", ({ detail }) => {
    if (!document.hidden || asked || !/(^| )(\*|inbox)( |$)/.test(detail)) return;
    asked = setTimeout(async () => {
      asked = 0;
      const reply = await fetch("/live/waiting").catch(() => null);
      if (reply?.ok) show(count(new DOMParser().parseFromString(await reply.text(), "text/html").body.textContent.trim()));
    }, known ? 5000 : 0);
  });
  if (button && self.Notification && Notification.permission != "denied") {
    const label = () => button.textContent = wanted() ? "Stop notifications" : "Notify me in this browser";
    label();
    button.hidden = false;
    button.addEventListener("click", async () => {
      if (wanted()) localStorage.removeItem(KEY);
      else if (await Notification.requestPermission() == "granted") localStorage.setItem(KEY, "1");
      label();
    });
  }
})();
