// One event stream for all tabs of a browser, or one per tab without shared workers.
const ports = new Set();
let source, at, up, timer, wait = 500;
const say = said => ports.forEach(port => port.postMessage(said));
const open = () => {
  source = new EventSource("/live?since=" + at);
  source.onerror = again;
  source.onmessage = ({ data, lastEventId }) => {
    wait = 500;
    at = lastEventId;
    clearTimeout(timer);
    timer = setTimeout(again, 40000);
    say({ up: up = 1, at, topics: data });
  };
};
const again = () => {
  source.close();
  clearTimeout(timer);
  say({ up: up = 0, at, topics: "" });
  timer = setTimeout(open, wait * (0.5 + Math.random()));
  wait = Math.min(2 * wait, 15000);
};
const add = port => port.onmessage = ({ data }) => {
  if (!data) return ports.delete(port);
  ports.add(port);
  if (!source) return at = data, open();
  // A page that was loaded before the last event may have missed it.
  const [us, ours] = at.split("."), [page, its] = data.split(".");
  if (up != null) port.postMessage({ up, at, topics: us == page && +its >= +ours ? "" : "*" });
};
if ("onconnect" in self) onconnect = ({ ports }) => add(ports[0]);
else add(self);
