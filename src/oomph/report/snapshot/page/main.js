// Puts the drawings into the page, for the device that is chosen.

let timeline = null, pointing = null, segments = null, flame = null, devices = [];

function legend(device) {
  byId("legend").replaceChildren(...device.words.categories.map((name, i) => {
    const item = document.createElement("li"), key = document.createElement("span");
    key.className = "key category-" + i;
    item.append(key, name);
    return item;
  }));
}

function redraw() {
  if (timeline) timeline.draw();
  segments.draw();
  flame.draw();
}

function choose(number) {
  const device = devices[number];
  for (const part of document.querySelectorAll("[data-device]")) part.hidden = part.dataset.device !== String(device.index);
  for (const kept of document.querySelectorAll(".kept")) kept.hidden = true;
  for (const old of [pointing, segments, flame]) if (old) old.stop.abort();
  const stacks = new Stacks(device.stacks);
  legend(device);
  const hasEvents = device.events > 0;
  byId("timeline-part").hidden = !hasEvents;
  timeline = hasEvents ? new Timeline(device, stacks) : null;
  pointing = hasEvents ? new TimelinePointing(timeline) : null;
  byId("by-time").checked = false;
  byId("by-time").disabled = !timeline || !timeline.time;
  segments = new SegmentMap(device, stacks);
  flame = new Flame(device, stacks);
  byId("segments-none").hidden = device.segments.segments.address.length > 0;
  flame.native = byId("flame-native").checked;
  if (flame.native) flame.build();
  flame.search(byId("flame-search").value);
  redraw();
  window.oomph = { device, stacks, timeline, segments, flame, size };  // for whoever wants to ask more, and for tests
}

function wire() {
  const on = (id, name, handler) => byId(id).addEventListener(name, handler);
  on("zoom-in", "click", () => timeline.zoom(0.5));
  on("zoom-out", "click", () => timeline.zoom(2));
  on("taller", "click", () => timeline.zoomBytes(0.5));
  on("flatter", "click", () => timeline.zoomBytes(2));
  on("zoom-reset", "click", () => { timeline.reset(); timeline.draw(); });
  on("by-time", "change", (event) => { timeline.measureBy(event.target.checked); timeline.draw(); });
  on("segments-in", "click", () => segments.zoom(2));
  on("segments-out", "click", () => segments.zoom(0.5));
  on("flame-search", "input", (event) => flame.search(event.target.value));
  on("flame-reset", "click", () => flame.focusOn(flame.root));
  on("flame-native", "change", (event) => { flame.native = event.target.checked; flame.build(); flame.draw(); });
  on("device", "change", (event) => choose(Number(event.target.value)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 100); });
  addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hide(); });
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    byId("status").textContent = "This browser is too old for the drawings. The tables below say the same.";
    return;
  }
  devices = (await unpack("data")).devices;
  if (!devices.length) return;
  byId("drawings").hidden = false;
  byId("status").hidden = true;
  wire();
  choose(Number(byId("device").value));
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}

start();
