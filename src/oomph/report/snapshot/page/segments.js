// The segments at the moment, byte for byte to one scale: what is in use by category, holes hatched.

const ROW = 16, ROW_GAP = 5, HEAD = 20, VISIBLE = 520;
const FREE = -1, PENDING = -2;

class SegmentMap {
  constructor(device, stacks) {
    this.device = device;
    this.stacks = stacks;
    this.data = device.segments;
    this.canvas = byId("segments");
    this.scroller = byId("segments-scroll");
    this.scale = 1;
    this.stop = new AbortController();
    const on = (target, name, handler) => target.addEventListener(name, handler, { signal: this.stop.signal });
    on(this.scroller, "scroll", () => this.paint());
    on(this.canvas, "pointermove", (event) => this.move(event));
    on(this.canvas, "pointerleave", () => tip.hide());
    on(this.canvas, "click", (event) => {
      const piece = this.find(event);
      if (piece !== null) tip.keep("segments-kept", this.describe(piece, Infinity));
    });
    on(this.canvas, "keydown", (event) => this.key(event));
  }

  zoom(factor) {
    const before = this.scale;
    this.scale = Math.min(64, Math.max(0.5, this.scale * factor));
    const middle = this.scroller.scrollTop / before;
    this.draw();
    this.scroller.scrollTop = middle * this.scale;
  }

  draw() {
    this.width = Math.max(300, this.scroller.clientWidth - 16);
    // Unmagnified, all of it fits: a segment that begins a row leaves the rest of the row before it empty.
    const scale = this.scale;
    this.scale = 1;
    for (this.rows = 20; this.rows >= 4; this.rows -= 2) {
      this.place();
      if (this.height <= VISIBLE) break;
    }
    this.scale = scale;
    this.place();
    this.own();
    this.paint();
  }

  /** Where each segment begins: rows of one width, a free list (pool and stream) after the other. */
  place() {
    const { address, bytes, group } = this.data.segments;
    const total = bytes.reduce((a, b) => a + b, 0);
    this.perPixel = total / (this.width * this.rows) / this.scale || 1;
    this.starts = new Float64Array(address.length);
    this.tops = [];
    this.heads = [];
    let row = 0, x = 0, top = this.placeRequest(), last = null;
    const rows = this.tops;
    const begin = () => { rows.push(top); row = rows.length - 1; top += ROW + ROW_GAP; x = 0; };
    for (let s = 0; s < address.length; s++) {
      if (group[s] !== last) {
        this.heads.push([top, this.data.groups[group[s]]]);
        top += HEAD;
        begin();
        last = group[s];
      }
      const width = bytes[s] / this.perPixel;
      if (x && x + width > this.width) begin();
      this.starts[s] = row * this.width + x;
      const end = this.starts[s] + Math.max(1, width);
      while (rows.length * this.width < end) { rows.push(top); top += ROW + ROW_GAP; }
      row = rows.length - 1;
      x = end - row * this.width + (width < 4 ? 0 : 2);
      if (x >= this.width) begin();
    }
    this.height = top;
    byId("segments-space").style.height = top + "px";
  }

  /** The failed request above the map, in as many rows as it fills; returns where they end. */
  placeRequest() {
    const { request } = this.data, width = request / this.perPixel, most = 8;
    this.request = [];
    if (!request) return 0;
    const rows = Math.ceil(width / this.width), isCut = rows > most;
    this.heads.push([0, `The request that failed, to the same scale: ${size(request)}${isCut ? " (not all of it is drawn)" : ""}`]);
    for (let row = 0; row < Math.min(rows, most); row++) {
      this.request.push([HEAD + row * (ROW + ROW_GAP), Math.max(1, Math.min(this.width, width - row * this.width))]);
    }
    return HEAD + this.request.length * (ROW + ROW_GAP);
  }

  /** For each pixel of all rows the piece that has most of it. */
  own() {
    const { segment, bytes, offset } = this.data.pieces;
    const size = this.tops.length * this.width;
    this.owner = new Int32Array(size).fill(-1);
    const most = new Float32Array(size);
    for (let k = 0; k < segment.length; k++) {
      const from = this.starts[segment[k]] + offset[k] / this.perPixel, to = from + bytes[k] / this.perPixel;
      for (let x = Math.floor(from); x < to && x < size; x++) {
        const part = Math.min(to, x + 1) - Math.max(from, x);
        if (part > most[x]) { most[x] = part; this.owner[x] = k; }
      }
    }
  }

  paint() {
    const visible = Math.min(this.height, VISIBLE);
    this.scroller.style.height = visible + 4 + "px";
    const context = prepare(this.canvas, this.width, visible);
    const scrolled = this.scroller.scrollTop;
    const palette = shades(this.device.words.categories).map((all) => all.map((colour) => `rgb(${colour})`));
    const hatch = hatching(context, style("faint"));
    context.textBaseline = "middle";
    for (const [top, text] of this.heads) {
      context.fillStyle = style("ink");
      context.fillText(fitted(context, text, this.width), 0, top - scrolled + HEAD / 2);
    }
    for (const [top, length] of this.request) {
      context.fillStyle = style("alarm");
      context.fillRect(0, top - scrolled, length, ROW);
    }
    this.tops.forEach((top, row) => {
      const y = top - scrolled;
      if (y > -ROW && y < visible) this.row(context, row, y, palette, hatch);
    });
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  row(context, row, y, palette, hatch) {
    const { owner, width } = this, { category, segment } = this.data.pieces;
    const base = row * width, largest = this.data.largest_hole;
    for (let x = 0; x < width;) {
      const k = owner[base + x];
      let end = x + 1;
      while (end < width && owner[base + end] === k) end++;
      if (k >= 0) {
        const c = category[k];
        context.fillStyle = c === FREE ? style("hole") : c === PENDING ? style("pending") : palette[c][(k + segment[k]) % 3];
        context.fillRect(x, y, end - x, ROW);
        if (c === FREE && end - x > 2) { context.fillStyle = hatch; context.fillRect(x, y, end - x, ROW); }
        if (k === largest || k === this.cursor) {
          context.fillStyle = style(k === this.cursor ? "ink" : "alarm");
          context.fillRect(x, y - 2, end - x, 3);
          context.fillRect(x, y + ROW - 1, end - x, 3);
        }
      }
      x = end;
    }
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(event.clientX - box.left), y = event.clientY - box.top + this.scroller.scrollTop;
    const row = lowerBound(this.tops, y + 1e-6) - 1;
    if (row < 0 || y > this.tops[row] + ROW || x < 0 || x >= this.width) return null;
    const k = this.owner[row * this.width + x];
    return k < 0 ? null : k;
  }

  move(event) {
    const piece = this.find(event);
    if (piece === null) tip.hide();
    else tip.show(this.describe(piece, 14), event.clientX, event.clientY);
  }

  describe(k, most) {
    const { segment, bytes, offset, category, node, requested, count: many } = this.data.pieces;
    const s = segment[k], list = this.data.segments, words = this.device.words;
    const where = `at ${size(offset[k])} of a segment of ${size(list.bytes[s])} at ${list.address[s]}`;
    const free = this.data.groups[list.group[s]];
    if (category[k] === FREE) {
      const largest = this.data.request ? "the largest hole that the request may use" : "the largest hole of all";
      const note = k === this.data.largest_hole ? largest : "free, cached by PyTorch";
      return [`hole of ${size(bytes[k])}`, note, where, free];
    }
    const name = category[k] === PENDING ? "freed, waits for another stream" : words.categories[category[k]];
    if (many[k] > 1) return [`${size(bytes[k])} ${name}`, `${count(many[k])} neighbouring blocks, folded`, where, free];
    return [`${size(bytes[k])} ${name}`, `requested ${size(requested[k])}`, where, free, "",
      ...this.stacks.linesOf(node[k], most)];
  }

  /** Keys: from piece to piece; Enter keeps what is shown. */
  key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const pieces = this.data.pieces.segment.length;
    if (event.key === "+" || event.key === "=") this.zoom(2);
    else if (event.key === "-") this.zoom(0.5);
    else if (by && pieces) {
      this.cursor = this.cursor === undefined ? 0 : (this.cursor + by + pieces) % pieces;
      const row = Math.floor(this.owner.indexOf(this.cursor) / this.width);
      if (row >= 0) this.scroller.scrollTop = this.tops[row] - 200;
      this.paint();
      tip.keep("segments-kept", this.describe(this.cursor, Infinity));
    } else return;
    event.preventDefault();
  }
}
