// What was alive at the moment, by stack: the outermost frame on top, width by bytes.

const LEVEL = 19;

class Flame {
  constructor(device, stacks) {
    this.device = device;
    this.stacks = stacks;
    this.canvas = byId("flame");
    this.native = false;
    this.words = "";
    this.stop = new AbortController();
    const on = (name, handler) => this.canvas.addEventListener(name, handler, { signal: this.stop.signal });
    on("pointermove", (event) => {
      const node = this.find(event);
      if (node) tip.show(this.describe(node), event.clientX, event.clientY); else tip.hide();
    });
    on("pointerleave", () => tip.hide());
    on("click", (event) => { const node = this.find(event); if (node) this.focusOn(node); });
    on("keydown", (event) => this.key(event));
    this.build();
  }

  /** The tree of frames with bytes; frames of C++ are left out unless asked for. */
  build() {
    const { node, bytes, blocks, category } = this.device.alive;
    const make = (frame, parent) =>
      ({ frame, parent, children: new Map(), bytes: 0, blocks: 0, categories: new Map(), depth: parent ? parent.depth + 1 : 0 });
    this.root = make(-1, null);
    for (let i = 0; i < node.length; i++) {
      let frames = node[i] === -1 ? [-3] : node[i] === -2 ? [-4] : this.stacks.path(node[i]);
      if (!this.native && node[i] >= 0) {
        const own = frames.filter((frame) => !this.stacks.native[frame]);
        frames = own.length ? own : frames;
      }
      let at = this.root;
      this.add(at, bytes[i], blocks[i], category[i]);
      for (const frame of frames) {
        let child = at.children.get(frame);
        if (!child) at.children.set(frame, (child = make(frame, at)));
        this.add((at = child), bytes[i], blocks[i], category[i]);
      }
    }
    this.focus = this.selected = this.root;
  }

  add(node, bytes, blocks, category) {
    node.bytes += bytes;
    node.blocks += blocks;
    node.categories.set(category, (node.categories.get(category) || 0) + bytes);
  }

  label(node) {
    if (node.frame === -1) return `all that was alive: ${size(node.bytes)}`;
    if (node.frame === -3) return "(no stack was recorded)";
    if (node.frame === -4) return "(stack left out of this page)";
    return this.stacks.name(node.frame);
  }

  place(node) { return node.frame < 0 ? "" : this.stacks.place(node.frame); }

  matches(node) {
    return this.words !== "" && node.frame !== -1 &&
      (this.label(node) + " " + this.place(node)).toLowerCase().includes(this.words);
  }

  search(words) {
    this.words = words.trim().toLowerCase();
    let found = 0;
    const stack = [this.root];
    while (stack.length && this.words) {
      const node = stack.pop();
      if (this.matches(node)) found += node.bytes;  // what lies below is counted with it
      else stack.push(...node.children.values());
    }
    byId("flame-found").textContent = !this.words ? "" : found
      ? `${size(found)} of ${size(this.root.bytes)} allocated below matching frames` : "no frame matches";
    this.draw();
  }

  focusOn(node) {
    this.focus = this.selected = node;
    this.draw();
    tip.keep("flame-kept", this.describe(node, true));
  }

  draw() {
    const width = Math.max(300, this.canvas.parentElement.clientWidth);
    this.boxes = [];
    const above = [];
    for (let node = this.focus; node; node = node.parent) above.unshift(node);
    above.forEach((node, level) => this.boxes.push([node, 0, width, level]));
    this.spread(this.focus, 0, width, above.length);
    const levels = this.boxes.reduce((most, box) => Math.max(most, box[3] + 1), 1);
    const context = prepare(this.canvas, width, Math.min(levels, 800) * LEVEL);
    context.textBaseline = "middle";
    const palette = this.device.words.categories.map((_, i) => style("category-" + i));
    this.byLevel = [];
    for (const box of this.boxes) {
      (this.byLevel[box[3]] = this.byLevel[box[3]] || []).push(box);
      this.box(context, box, palette, box[3] < above.length - 1);
    }
  }

  spread(node, left, width, level) {
    const waiting = [[node, left, width, level]];
    while (waiting.length) {
      const [parent, start, room, depth] = waiting.pop();
      let x = start;
      for (const child of [...parent.children.values()].sort((a, b) => b.bytes - a.bytes)) {
        const share = (room * child.bytes) / parent.bytes;
        if (share < 0.5) break;
        this.boxes.push([child, x, share, depth]);
        waiting.push([child, x, share, depth + 1]);
        x += share;
      }
    }
  }

  box(context, [node, x, width, level], palette, isAbove) {
    const y = level * LEVEL;
    const [category] = [...node.categories].reduce((a, b) => (b[1] > a[1] ? b : a), [palette.length - 1, 0]);
    const isFound = this.matches(node);
    context.globalAlpha = isAbove || (this.words && !isFound) ? 0.4 : 1;
    context.fillStyle = palette[category];
    context.fillRect(x, y, Math.max(0.5, width - 1), LEVEL - 1);
    context.globalAlpha = 1;
    if (isFound || node === this.selected) {
      context.strokeStyle = style("ink");
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, width - 3), LEVEL - 3);
    }
    if (width < 30) return;
    const own = rgb(palette[category]), faded = isAbove || (this.words && !isFound);
    const isDark = faded ? style("paper") < "#8" : own[0] * 0.3 + own[1] * 0.59 + own[2] * 0.11 < 118;
    context.fillStyle = isDark ? "#ffffff" : "#111111";
    context.fillText(fitted(context, this.label(node), width - 8), x + 4, y + LEVEL / 2);
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, level = Math.floor((event.clientY - box.top) / LEVEL);
    const found = ((this.byLevel || [])[level] || []).find(([, left, width]) => x >= left && x < left + width);
    return found ? found[0] : null;
  }

  describe(node, withPath = false) {
    const part = this.root.bytes ? (100 * node.bytes) / this.root.bytes : 0;
    const categories = [...node.categories].sort((a, b) => b[1] - a[1])
      .map(([category, bytes]) => `${this.device.words.categories[category]} ${size(bytes)}`);
    const lines = [this.label(node), this.place(node),
      `${size(node.bytes)} in ${plural(node.blocks, "block")}, ${part.toFixed(1)} % of all`, ...categories];
    if (withPath) {
      lines.push("", "called from");
      for (let at = node.parent; at && at.frame !== -1; at = at.parent) lines.push(`${this.label(at)}   ${this.place(at)}`);
    }
    return lines.filter((line, i) => line !== "" || i > 2);
  }

  key(event) {
    const at = this.selected, sorted = (node) => [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
    const beside = (by) => {
      if (!at.parent) return at;
      const all = sorted(at.parent);
      return all[Math.min(all.length - 1, Math.max(0, all.indexOf(at) + by))];
    };
    const goes = { ArrowUp: () => at.parent || at, ArrowDown: () => sorted(at)[0] || at,
      ArrowLeft: () => beside(-1), ArrowRight: () => beside(1) };
    if (goes[event.key]) {
      this.selected = goes[event.key]();
      tip.keep("flame-kept", this.describe(this.selected));
      this.draw();
    } else if (event.key === "Enter") this.focusOn(at);
    else if (event.key === "Escape") this.focusOn(this.root);
    else return;
    event.preventDefault();
  }
}
