// Mouse, touch and keys on the timeline.

class TimelinePointing {
  constructor(timeline) {
    this.timeline = timeline;
    const over = timeline.over;
    this.stop = new AbortController();
    const on = (name, handler, options = {}) =>
      over.addEventListener(name, handler, { signal: this.stop.signal, ...options });
    on("pointermove", (event) => this.move(event));
    on("pointerdown", (event) => this.down(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", () => { this.start = null; });
    on("pointerleave", () => { if (!this.start) { tip.hide(); timeline.point(null); } });
    on("dblclick", () => { timeline.reset(); timeline.draw(); });
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("keydown", (event) => this.key(event));
  }

  place(event) {
    const box = this.timeline.over.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  along(x) {
    const { timeline } = this;
    const part = Math.min(1, Math.max(0, (x - timeline.left) / timeline.plotWidth));
    return timeline.from + part * (timeline.to - timeline.from);
  }

  bytes(y) {
    const { timeline } = this;
    const part = Math.min(1, Math.max(0, (timeline.top + timeline.plotHeight - y) / timeline.plotHeight));
    return timeline.low + part * (timeline.high - timeline.low);
  }

  move(event) {
    const [x, y] = this.place(event), { timeline } = this;
    if (this.start && Math.abs(x - this.start[0]) > 4) {
      this.dragging = true;
      tip.hide();
      timeline.select(this.start, [x, y], event.shiftKey);
      return;
    }
    const at = timeline.at(x, y);
    if (!at) { tip.hide(); timeline.point(null); return; }
    timeline.cursor = at;
    timeline.point(...at);
    tip.show(timeline.describe(...at, 14), event.clientX, event.clientY);
  }

  down(event) {
    if (event.button !== 0) return;
    this.start = this.place(event);
    this.dragging = false;
    this.timeline.over.setPointerCapture(event.pointerId);
  }

  up(event) {
    const [x, y] = this.place(event), { timeline, start } = this;
    this.start = null;
    if (start && this.dragging) {
      const [from, to] = [this.along(start[0]), this.along(x)].sort((a, b) => a - b);
      timeline.point(null);
      const [low, high] = [this.bytes(start[1]), this.bytes(y)].sort((a, b) => a - b);
      if (event.shiftKey && high > low) timeline.showBytes(low, high);
      if (to > from) {
        timeline.show(from, to);
        timeline.zoom(1);
      }
      return;
    }
    const at = timeline.at(x, y);
    if (at) tip.keep("timeline-kept", timeline.describe(...at));
  }

  /** The wheel zooms where the pointer is, with Shift in height; fully zoomed out, it scrolls the page as ever. */
  wheel(event) {
    const { timeline } = this, isOut = timeline.to - timeline.from >= timeline.end;
    if (event.ctrlKey || (event.deltaY > 0 && isOut && !event.shiftKey)) return;
    event.preventDefault();
    tip.hide();
    // Browsers turn the wheel sideways while Shift is held.
    const turned = event.deltaY || event.deltaX;
    if (event.shiftKey) timeline.zoomBytes(Math.exp(Math.sign(turned) * 0.25), this.bytes(this.place(event)[1]));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) timeline.pan(event.deltaX / timeline.plotWidth);
    else timeline.zoom(Math.exp(Math.sign(event.deltaY) * 0.25), this.along(this.place(event)[0]));
  }

  key(event) {
    const { timeline } = this;
    const zooms = { "+": 0.5, "=": 0.5, "-": 2 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (zooms[event.key]) timeline.zoom(zooms[event.key], this.cursorAlong());
    else if (event.key === "]" || event.key === "[") timeline.zoomBytes(event.key === "]" ? 0.5 : 2, this.cursorBytes());
    else if (event.key === "Home") { timeline.reset(); timeline.draw(); }
    else if (event.key === "PageUp") timeline.pan(-0.5);
    else if (event.key === "PageDown") timeline.pan(0.5);
    else if (event.key.startsWith("Arrow")) this.step(event.key.slice(5), event.shiftKey);
    else if (event.key === "Enter" && timeline.cursor) {
      tip.keep("timeline-kept", timeline.describe(...timeline.cursor));
    } else return;
    event.preventDefault();
  }

  cursorAlong() {
    const { timeline } = this;
    if (!timeline.cursor) return undefined;
    return timeline.from + (timeline.cursor[0] / timeline.columns) * (timeline.to - timeline.from);
  }

  cursorBytes() {
    const { timeline } = this;
    if (!timeline.cursor) return undefined;
    return timeline.high - (timeline.cursor[1] / timeline.rows) * (timeline.high - timeline.low);
  }

  /** Arrow keys: left and right along the trace, up and down from block to block. */
  step(way, isFine) {
    const { timeline } = this, { columns, rows, owner } = timeline;
    let [x, y] = timeline.cursor || [columns >> 1, rows - 2];
    const far = isFine ? 1 : Math.max(1, Math.round(columns / 100));
    if (way === "Left") x = Math.max(0, x - far);
    if (way === "Right") x = Math.min(columns - 1, x + far);
    if (way === "Up" || way === "Down") {
      const by = way === "Up" ? -1 : 1, id = owner[y * columns + x];
      while (y + by >= 0 && y + by < rows && owner[y * columns + x] === id) y += by;
    }
    timeline.cursor = [x, y];
    timeline.point(x, y);
    const box = timeline.over.getBoundingClientRect();
    tip.show(timeline.describe(x, y, 14), box.left + timeline.left + x / timeline.ratio, box.top + y / timeline.ratio);
  }
}
