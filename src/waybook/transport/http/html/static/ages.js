// Ages that advance, times in the local zone, and how many items need the user: in the title of
// the tab, and in a notification if the user asked for it.
"use strict";
(() => {
  const MINUTE = 60, HOUR = 3600, DAY = 86400, since = new WeakMap();
  const whole = (seconds, unit) => Math.floor(seconds / unit);
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
  const tick = () => {
    if (document.hidden) return;
    for (const tag of document.querySelectorAll("time[data-age]")) {
      if (!since.has(tag)) since.set(tag, Date.now() - 1000 * tag.dataset.age);
      const seconds = Math.max(0, whole(Date.now() - since.get(tag), 1000));
      const text = "elapsed" in tag.dataset ? elapsed(seconds) : age(seconds);
      if (tag.textContent != text) tag.textContent = text;
    }
  };
  tick();
  setInterval(tick, 1000);
  addEventListener("htmx:afterSettle", tick);
  document.addEventListener("visibilitychange", tick);
  addEventListener("mouseover", ({ target }) => {
    const tag = target.closest?.("time[datetime]");
    if (tag) tag.title = new Date(tag.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  });

  const count = text => +text || 0, shown = () => count(document.getElementById("waiting")?.textContent);
  let known = shown(), asked = 0;
  const button = document.getElementById("notify"), KEY = "waybook.notify";
  const wanted = () => self.Notification?.permission == "granted" && localStorage.getItem(KEY);
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
