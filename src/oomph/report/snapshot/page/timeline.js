// Memory over time, stacked by category. Drawn pixel by pixel: the work is that of the screen, not of the trace.
//
// State 0 is before the first event, state i + 1 after event i. For each column of pixels the state with the most
// allocated bytes among its states is shown, so that a peak never vanishes.

class Timeline {
  constructor(device, stacks, words) {
    this.device = device;
    this.stacks = stacks;
    this.words = words;
    const curves = device.curves;
    this.states = curves.states;
    this.starts = summed(curves.starts);
    this.peak = this.starts.map((start, i) => start + curves.peak[i]);
    this.byCategory = curves.categories.map(summed);
    this.lowest = summed(curves.lowest);
    this.reserved = summed(curves.reserved);
    this.phase = curves.phase;
    this.time = curves.time ? summed(curves.time) : null;
    this.total = this.starts.map((_, i) => this.byCategory.reduce((sum, values) => sum + values[i], 0));
    this.highest = Math.max(...[this.total, this.reserved].map((all) => all.reduce((a, b) => Math.max(a, b), 0)), 1);
    this.blocks = { ...device.blocks, born: summed(device.blocks.born) };
    this.byTime = false;
    this.cursor = null;
    this.canvas = byId("timeline");
    this.over = byId("timeline-over");
    this.reset();
  }

  // -- the two ways to measure along the axis --

  get edges() { return this.byTime ? this.time : this.starts; }
  get end() { return this.byTime ? this.time[this.time.length - 1] + 1 : this.states; }

  /** Where on the axis a state stands. */
  along(state) {
    if (!this.byTime) return state;
    const bucket = Math.max(0, lowerBound(this.starts, state + 1) - 1);
    return this.time[bucket];
  }

  measureBy(time) {
    this.byTime = time && this.time !== null;
    this.reset();
  }

  reset() {
    this.from = 0;
    this.to = this.end;
    this.low = 0;
    this.high = this.most();
    this.cursor = null;
  }

  /** The bytes that the drawing has to have room for. */
  most() {
    const capacity = this.device.capacity, most = this.highest * 1.04;
    return capacity && capacity < this.highest * 1.6 ? Math.max(most, capacity * 1.03) : most;
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    const least = this.byTime ? 20 : 8;
    const span = Math.min(this.end, Math.max(least, (this.to - this.from) * factor));
    const part = (around - this.from) / (this.to - this.from);
    this.show(around - part * span, around - part * span + span);
  }

  show(from, to) {
    const span = Math.min(this.end, to - from);
    this.from = Math.max(0, Math.min(from, this.end - span));
    this.to = this.from + span;
    this.draw();
  }

  /** Makes small blocks visible: the same height for fewer bytes, around `around`. */
  zoomBytes(factor, around = (this.low + this.high) / 2) {
    const span = Math.min(this.most(), Math.max(4096, (this.high - this.low) * factor));
    const part = (around - this.low) / (this.high - this.low);
    this.showBytes(around - part * span, around - part * span + span);
  }

  showBytes(low, high) {
    const span = Math.min(this.most(), high - low);
    this.low = Math.max(0, Math.min(low, this.most() - span));
    this.high = this.low + span;
    this.draw();
  }

  pan(part) {
    const by = (this.to - this.from) * part;
    this.show(this.from + by, this.to + by);
  }

  // -- drawing --

  draw() {
    const width = Math.max(320, this.canvas.parentElement.clientWidth);
    this.left = 76;
    this.top = 8;
    this.plotWidth = width - this.left - 8;
    this.plotHeight = 380;
    const height = this.top + this.plotHeight + 58;
    const context = prepare(this.canvas, width, height);
    prepare(this.over, width, height);
    this.ratio = this.canvas.width / width;
    this.columns = Math.round(this.plotWidth * this.ratio);
    this.rows = Math.round(this.plotHeight * this.ratio);
    this.pick();
    this.stack();
    this.paint(context);
    this.axes(context, width);
    this.drawn = true;
  }

  /** For each column the bucket that it shows, and the least and the reserved bytes of all that it stands for. */
  pick() {
    const { columns, edges, from, to } = this;
    this.bucket = new Int32Array(columns);
    this.least = new Float64Array(columns);
    this.held = new Float64Array(columns);
    this.phases = new Int8Array(columns);
    for (let x = 0; x < columns; x++) {
      let low = lowerBound(edges, from + ((to - from) * x) / columns);
      let high = lowerBound(edges, from + ((to - from) * (x + 1)) / columns);
      if (high <= low) [low, high] = [Math.max(0, high - 1), Math.max(1, high)];
      else if (x === 0 && low > 0 && edges[low] > from) low--;
      let best = low, least = Infinity, held = 0;
      const votes = new Map();
      for (let i = low; i < high; i++) {
        if (this.total[i] > this.total[best]) best = i;
        least = Math.min(least, this.lowest[i]);
        held = Math.max(held, this.reserved[i]);
        votes.set(this.phase[i], (votes.get(this.phase[i]) || 0) + 1);
      }
      this.bucket[x] = best;
      this.least[x] = least;
      this.held[x] = held;
      this.phases[x] = [...votes].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
    }
  }

  /** Who owns each pixel: block k as k + 1, the small blocks of category c as -(c + 1), nobody as 0. */
  stack() {
    const { columns, rows, blocks, device } = this;
    const owner = (this.owner = new Int32Array(columns * rows));
    const scale = rows / (this.high - this.low);
    const first = this.peak[this.bucket[0]], last = this.peak[this.bucket[columns - 1]];
    const queues = device.words.categories.map(() => []);
    for (let k = 0; k < blocks.born.length; k++) {
      const born = blocks.born[k] + 1;
      if (born > last) break;
      const freed = blocks.life[k] < 0 ? Infinity : born + blocks.life[k];
      if (freed > first && blocks.bytes[k] * scale >= 0.8) queues[blocks.category[k]].push([k, born, freed]);
    }
    const alive = queues.map(() => []);
    const next = queues.map(() => 0);
    for (let x = 0; x < columns; x++) {
      const state = this.peak[this.bucket[x]];
      let below = 0;
      for (let c = 0; c < queues.length; c++) {
        const queue = queues[c];
        while (next[c] < queue.length && queue[next[c]][1] <= state) alive[c].push(queue[next[c]++]);
        if (alive[c].some((block) => block[2] <= state)) alive[c] = alive[c].filter((block) => block[2] > state);
        const top = below + this.byCategory[c][this.bucket[x]];
        let level = below;
        for (const [k] of alive[c]) {
          this.fill(x, (level - this.low) * scale, (level + blocks.bytes[k] - this.low) * scale, k + 1);
          level += blocks.bytes[k];
        }
        this.fill(x, (level - this.low) * scale, (top - this.low) * scale, -(c + 1));
        below = top;
      }
    }
  }

  fill(x, bottom, top, owner) {
    const { columns, rows } = this;
    const from = Math.max(0, rows - Math.round(top)), to = Math.min(rows, rows - Math.round(bottom));
    for (let y = from; y < to; y++) this.owner[y * columns + x] = owner;
  }

  paint(context) {
    const { columns, rows, owner, blocks } = this;
    const palette = shades(this.device.words.categories);
    const colours = palette.map((all) => all.map(pixel));
    const lines = palette.map((all) => pixel(mixed(all[0], [0, 0, 0], 0.45)));
    const image = context.createImageData(columns, rows);
    const target = new Uint32Array(image.data.buffer);
    for (let i = 0; i < owner.length; i++) {
      const id = owner[i];
      if (id < 0) target[i] = colours[-id - 1][0];
      else if (id > 0) {
        const c = blocks.category[id - 1];
        const isWide = owner[i - 1] === id && owner[i + 1] === id;
        const isEdge = isWide && owner[i - columns] !== id && owner[i + columns] === id && owner[i + 2 * columns] === id;
        target[i] = isEdge ? lines[c] : colours[c][id % 3];
      }
    }
    context.putImageData(image, Math.round(this.left * this.ratio), Math.round(this.top * this.ratio));
  }

  x(along) { return this.left + ((along - this.from) / (this.to - this.from)) * this.plotWidth; }
  y(bytes) { return this.top + this.plotHeight * (1 - (bytes - this.low) / (this.high - this.low)); }

  axes(context, width) {
    const ink = style("ink"), faint = style("faint");
    context.textBaseline = "middle";
    const step = niceStep(this.high - this.low, 6, 2);
    for (let bytes = Math.ceil(this.low / step) * step; bytes <= this.high; bytes += step) {
      context.fillStyle = style("grid");
      context.fillRect(this.left, Math.round(this.y(bytes)), this.plotWidth, 1);
      context.fillStyle = ink;
      context.textAlign = "right";
      context.fillText(this.amount(bytes, step), this.left - 6, Math.max(10, this.y(bytes)));
    }
    this.level(context, this.held, style("reserved"), [], 2);
    if (!this.byTime && (this.to - this.from) / this.columns >= 4) {
      this.level(context, this.least, style("lowest"), [3, 3], 1);
    }
    this.capacity(context);
    this.band(context);
    this.ticks(context, faint);
    this.mark(context);
  }

  /** A label of the axis, in a unit that suits all of them and tells neighbours apart. */
  amount(bytes, step) {
    const units = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
    const unit = units.find(([one]) => this.high >= 2 * one && step >= one / 8);
    if (!bytes || !unit) return bytes ? count(bytes) + " bytes" : "0";
    return `${Number((bytes / unit[0]).toFixed(3)).toLocaleString("en-US")} ${unit[1]}`;
  }

  level(context, values, colour, dash, lineWidth) {
    context.strokeStyle = colour;
    context.lineWidth = lineWidth;
    context.setLineDash(dash);
    context.beginPath();
    for (let i = 0; i < values.length; i++) context.lineTo(this.left + i / this.ratio, this.y(values[i]));
    context.save();
    const frame = new Path2D();
    frame.rect(this.left, this.top, this.plotWidth, this.plotHeight);
    context.clip(frame);
    context.stroke();
    context.restore();
    context.setLineDash([]);
  }

  capacity(context) {
    const bytes = this.device.capacity;
    if (!bytes || bytes > this.high || bytes < this.low) return;
    context.fillStyle = style("alarm");
    context.fillRect(this.left, this.y(bytes) - 1, this.plotWidth, 2);
    context.textAlign = "left";
    context.fillText("available to PyTorch: " + size(bytes), this.left + 6, this.y(bytes) + 10);
  }

  /** The phases as a band, the steps as ticks below it. */
  band(context) {
    const top = this.top + this.plotHeight + 4;
    const names = this.device.words.phases;
    context.textAlign = "center";
    for (let begin = 0; begin < this.columns;) {
      let end = begin + 1;
      while (end < this.columns && this.phases[end] === this.phases[begin]) end++;
      const x = this.left + begin / this.ratio, width = (end - begin) / this.ratio;
      const name = names[this.phases[begin]];
      context.fillStyle = style("phase-" + name);
      context.fillRect(x, top, width, 15);
      context.fillStyle = style("ink");
      if (width > 24) context.fillText(fitted(context, name, width - 4), x + width / 2, top + 8);
      begin = end;
    }
    const steps = this.device.steps.map((position) => this.along(position + 1));
    const visible = steps.filter((along) => along >= this.from && along <= this.to).length;
    context.textAlign = "left";
    context.fillStyle = style("ink");
    let free = -Infinity;
    steps.forEach((along, number) => {
      if (along < this.from || along > this.to || visible > this.plotWidth / 3) return;
      const x = this.x(along);
      context.fillRect(x, top + 17, 1, 8);
      const label = "step " + number;
      if (x < free || x + context.measureText(label).width > this.left + this.plotWidth) return;
      context.fillText(label, x + 3, top + 22);
      free = x + context.measureText(label).width + 12;
    });
  }

  ticks(context, colour) {
    const y = this.top + this.plotHeight + 46;
    const step = Math.max(1, niceStep(this.to - this.from, this.plotWidth / 130));
    context.fillStyle = colour;
    for (let along = Math.ceil(this.from / step) * step; along <= this.to; along += step) {
      const x = this.x(along);
      context.fillRect(x, y - 12, 1, 4);
      const label = this.byTime ? duration(along) : "event " + count(along);
      const half = context.measureText(label).width / 2;
      context.textAlign = "center";
      context.fillText(label, Math.min(Math.max(x, this.left + half), this.left + this.plotWidth - half), y);
    }
  }

  mark(context) {
    const few = this.device.retries.length <= 20;
    for (const position of this.device.retries) this.flag(context, position, few ? "retry" : "", style("ink"), 19);
    const moment = this.device.moment;
    this.flag(context, moment.position, moment.kind, style("alarm"), 0);
  }

  flag(context, position, label, colour, down) {
    const along = this.along(position + 1);
    if (along < this.from || along > this.to) return;
    const x = this.x(along), width = context.measureText(label).width + 8;
    context.fillStyle = colour;
    context.fillRect(x - 0.5, this.top, down ? 1 : 2, this.plotHeight);
    if (!label) return;
    const left = x + width > this.left + this.plotWidth ? x - width : x;
    context.fillRect(left, this.top + down, width, 17);
    context.fillStyle = style("paper");
    context.textAlign = "left";
    context.fillText(label, left + 4, this.top + down + 9);
  }

  // -- what is there --

  /** [column, row] in pixels of the drawing for a place on the page; null outside. */
  at(x, y) {
    const column = Math.floor((x - this.left) * this.ratio), row = Math.floor((y - this.top) * this.ratio);
    return column >= 0 && column < this.columns && row >= 0 && row < this.rows ? [column, row] : null;
  }

  event(state) {
    if (state === 0) return "the start of the trace";
    const name = "event " + count(state - 1);
    if (!this.time) return name;
    const bucket = Math.max(0, lowerBound(this.starts, state + 1) - 1);
    return `${name} (${this.starts[bucket] === state ? "" : "about "}${duration(this.time[bucket])})`;
  }

  describe(column, row, lines) {
    const bucket = this.bucket[column], state = this.peak[bucket], id = this.owner[row * this.columns + column];
    const states = (bucket + 1 < this.starts.length ? this.starts[bucket + 1] : this.states) - this.starts[bucket];
    const most = states > 1 ? `, the most among ${count(states)} events` : "";
    const where = `${this.event(state)}${most}: ${size(this.total[bucket])} allocated of ${size(this.reserved[bucket])} reserved, ` +
      this.device.words.phases[this.phase[bucket]];
    if (!id) return [where];
    if (id < 0) {
      const c = -id - 1;
      return [`${this.device.words.categories[c]}: ${size(this.byCategory[c][bucket])} in all`,
        "here: its blocks that are too small to draw one by one; Shift and the wheel make it taller", where];
    }
    return [...this.block(id - 1), where, "", ...this.stacks.linesOf(this.blocks.node[id - 1], lines)];
  }

  block(k) {
    const { blocks } = this, words = this.device.words, born = blocks.born[k] + 1;
    const how = words.how[blocks.how[k]], certainty = words.certainty[blocks.certainty[k]];
    const told = how === "none" ? "nothing told what it is" : `told by ${how}, ${certainty}`;
    const end = blocks.life[k] < 0 ? "not freed within the trace" : "freed at " + this.event(born + blocks.life[k]);
    return [`${size(blocks.bytes[k])} ${words.categories[blocks.category[k]]}`,
      `requested ${size(blocks.requested[k])}; ${told}`,
      `${born ? "allocated at " + this.event(born) : "allocated before the trace"}, ${end}`];
  }

  /** Marks what the pointer is on: its pixels, and a line through the column. */
  point(column, row) {
    const context = this.over.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.over.width, this.over.height);
    if (column === null) return;
    const { columns, rows, owner } = this, id = owner[row * columns + column];
    const left = Math.round(this.left * this.ratio), top = Math.round(this.top * this.ratio);
    if (id) {
      const image = context.createImageData(columns, rows);
      const target = new Uint32Array(image.data.buffer);
      for (let i = 0; i < owner.length; i++) if (owner[i] === id) target[i] = 0x66ffffff;
      context.putImageData(image, left, top);
    }
    context.fillStyle = style("ink");
    context.globalAlpha = 0.5;
    context.fillRect(left + column, top, 1, rows);
    context.globalAlpha = 1;
    context.fillRect(left + column - 4, top + row, 9, 1);
  }

  /** Marks what is being dragged over: columns from one place to another, or with `isBox` the box between them. */
  select([left, top], [right, bottom], isBox) {
    this.point(null);
    const context = this.over.getContext("2d"), all = [this.top, this.top + this.plotHeight];
    const [from, to] = isBox ? [Math.min(top, bottom), Math.max(top, bottom)] : all;
    context.fillStyle = style("ink");
    context.globalAlpha = 0.2;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillRect(Math.min(left, right), from, Math.abs(right - left), to - from);
    context.globalAlpha = 1;
  }
}
