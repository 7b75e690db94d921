// Decoding, words and the box under the pointer: what all drawings share.

const byId = (id) => document.getElementById(id);

/** The packed data of the page: gzip in base64, JSON inside. */
async function unpack(id) {
  const text = atob(byId(id).textContent.trim());
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** A list of differences as the values themselves. */
function summed(differences) {
  const values = new Float64Array(differences.length);
  let value = 0;
  for (let i = 0; i < differences.length; i++) values[i] = value += differences[i];
  return values;
}

/** Index of the first value that is not below `wanted` in an ascending array. */
function lowerBound(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1; else high = middle;
  }
  return low;
}

/** Two decimals, a half to the even digit, as Python and C round. `toFixed` rounds halves up, and halves are common:
 * 1.125 MiB is a multiple of 512 bytes. Times 100 is exact here, since a size has far fewer than 53 bits. */
function twoDecimals(value) {
  const scaled = value * 100, floor = Math.floor(scaled), rest = scaled - floor;
  const up = rest > 0.5 || (rest === 0.5 && floor % 2 === 1);
  return ((floor + (up ? 1 : 0)) / 100).toFixed(2);
}

/** A size as PyTorch prints it; the rule is that of oomph/units.py. */
function size(bytes) {
  if (bytes < 0) return "-" + size(-bytes);
  if (bytes <= 1024) return bytes + " bytes";
  if (bytes <= 2 ** 20) return twoDecimals(bytes / 2 ** 10) + " KiB";
  if (bytes <= 2 ** 30) return twoDecimals(bytes / 2 ** 20) + " MiB";
  return twoDecimals(bytes / 2 ** 30) + " GiB";
}

const count = (number) => number.toLocaleString("en-US");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Microseconds as people say them. */
function duration(us) {
  if (us < 1000) return us.toFixed(0) + " µs";
  if (us < 1e6) return (us / 1e3).toFixed(us < 1e4 ? 2 : 1) + " ms";
  if (us < 6e8) return (us / 1e6).toFixed(us < 1e7 ? 3 : 2) + " s";
  return (us / 6e7).toFixed(1) + " min";
}

/** The distance of ticks that cut `range` into about `steps` parts: 1, 2 or 5 times a power of ten; of `base` 2, a
 * power of two. */
function niceStep(range, steps, base = 10) {
  const rough = range / Math.max(1, steps);
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const factors = base === 2 ? [1, 2] : [1, 2, 5, 10];
  return (factors.find((factor) => factor * power >= rough) || factors[factors.length - 1]) * power;
}

// -- colours ---------------------------------------------------------------------------------------------------------

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** A colour as one number in the order of canvas pixels on little-endian machines. */
const pixel = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
const mixed = (colour, other, part) => colour.map((value, i) => Math.round(value + (other[i] - value) * part));

/** For each category three shades, the first being its own colour: neighbours of one category can be told apart. */
function shades(categories) {
  return categories.map((_, i) => {
    const own = rgb(style("category-" + i));
    return [own, mixed(own, [255, 255, 255], 0.16), mixed(own, [0, 0, 0], 0.14)];
  });
}

// -- canvases --------------------------------------------------------------------------------------------------------

/** Makes a canvas as sharp as the screen and returns its context in units of CSS pixels. */
function prepare(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "12px system-ui, sans-serif";
  return context;
}

/** Text cut to `width` pixels; "" where not even a letter fits. */
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + "…" : "";
}

/** Diagonal lines: free memory. */
function hatching(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) { pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

// -- stacks ----------------------------------------------------------------------------------------------------------

/** The frames of all stacks, as a tree from the outermost frame inwards. */
class Stacks {
  constructor(data) {
    this.strings = data.strings;
    this.functions = data.functions;
    this.files = data.files;
    this.lines = data.lines;
    this.native = data.native;
    this.parents = data.parents;
    this.frames = data.frames;
  }

  name(frame) { return this.strings[this.functions[frame]]; }

  place(frame) {
    const file = this.strings[this.files[frame]];
    return this.lines[frame] ? `${file}:${this.lines[frame]}` : file;
  }

  /** Frame numbers from the outermost to the innermost. */
  path(node) {
    const frames = [];
    for (; node >= 0; node = this.parents[node]) frames.push(this.frames[node]);
    return frames.reverse();
  }

  /** The stack as lines, innermost first; at most `most` of them, C++ frames left out where they are many. */
  linesOf(node, most = Infinity) {
    if (node === -2) return ["(its stack was left out of this page, which holds the largest)"];
    if (node < 0) return ["(no stack was recorded)"];
    let frames = this.path(node).reverse();
    const all = frames.length;
    if (most < all) {
      const own = frames.filter((frame) => !this.native[frame]);
      if (own.length) frames = own;
    }
    const shown = frames.slice(0, most).map((frame) => `${this.name(frame)}   ${this.place(frame)}`);
    if (shown.length < all) shown.push(`… ${plural(all - shown.length, "more frame")}: click to keep and see all`);
    return shown;
  }
}

// -- the box under the pointer, and what a click keeps ---------------------------------------------------------------

const tip = {
  /** `lines`: text, the first of them bold. Only ever text: names in a snapshot are somebody else's. */
  show(lines, x, y) {
    const box = byId("tip");
    box.replaceChildren(...lines.map((line, i) => {
      const row = document.createElement(i ? "div" : "strong");
      row.textContent = line;
      return row;
    }));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? Math.max(4, x - width - 12) : x + 16;
    const top = y + 16 + height > innerHeight ? Math.max(4, y - height - 12) : y + 16;
    box.style.left = left + "px";
    box.style.top = top + "px";
  },
  hide() { byId("tip").hidden = true; },
  /** Keeps it below the drawing, where it can be read in peace, copied, and is read out. */
  keep(id, lines) {
    const box = byId(id);
    box.textContent = lines.join("\n");
    box.hidden = false;
  },
};
