// Where events stand on the ladder's vertical axis, a row each or by their time, and how many of them
// stand in each part of it.

const ROW = 26;  // pixels of a row that has its text
const MOST_UNDERWAY = 4000;  // events before the first that is seen: how many are looked at

class Axis {
  constructor(model) {
    this.model = model;
    this.mode = 'steps';
    this.height = 1;
    this.steps = { top: 0, scale: ROW };  // rows, pixels of a row
    this.time = { top: 0, scale: 1e-3 };  // ns, pixels of a nanosecond
    this.setList(new Uint32Array(0));
  }

  get view() { return this.mode === 'steps' ? this.steps : this.time; }
  get first() { return this.list.length ? this.model.time[this.list[0]] : 0; }

  setList(list) {
    this.list = list;
    const { time, arrived } = this.model;
    this.maxTransit = 0;
    this.end = list.length ? time[list[list.length - 1]] : 0;
    for (let k = 0; k < list.length; ++k) {
      const transit = arrived[list[k]] - time[list[k]];
      if (transit > this.maxTransit) this.maxTransit = transit;
      if (arrived[list[k]] > this.end) this.end = arrived[list[k]];
    }
    this.sum();
    this.steps.top = 0;
    this.steps.scale = ROW;
    this.time.top = this.first;
    this.findGaps();
    this.time.scale = this.firstScale();
    this.clamp();
  }

  /** Sums up to each place: how many stand in a part is a difference, whatever its size. */
  sum() {
    const { kind, right, flags } = this.model;
    const list = this.list;
    const hasPackets = list.some((i) => kind[i] === Kind.packet);
    const sums = this.sums = Object.fromEntries(
      ['left', 'right', 'leftAgain', 'rightAgain', 'trouble'].map((name) => [name, new Uint32Array(list.length + 1)]));
    for (let k = 0; k < list.length; ++k) {
      const i = list[k];
      const isPacket = kind[i] === Kind.packet;
      const side = right[i] ? 'right' : 'left';
      for (const name in sums) sums[name][k + 1] = sums[name][k];
      if (isPacket || !hasPackets) ++sums[side][k + 1];
      if (isPacket && flags[i] & Flag.again) ++sums[`${side}Again`][k + 1];
      if (this.model.isTrouble(i)) ++sums.trouble[k + 1];
    }
  }

  /** Of each of `rows` parts, `size` long, from `begin` on: the packets that the left and the right
   *  end sent, those of them that were sent again, and the events in trouble. Where there is no
   *  packet in the list: the events of either end. */
  count(begin, size, rows) {
    const counts = {};
    for (const name in this.sums) counts[name] = new Uint32Array(rows);
    let from = this.placeAt(begin);
    for (let row = 0; row < rows; ++row) {
      const to = this.placeAt(begin + (row + 1) * size);
      for (const name in counts) counts[name][row] = this.sums[name][to] - this.sums[name][from];
      from = to;
    }
    return counts;
  }

  /** The first place at or behind a point of the axis. */
  placeAt(point) {
    if (this.mode === 'time') return placeOfTime(this.model, this.list, point);
    return Math.max(0, Math.min(this.list.length, Math.ceil(point - 0.5)));
  }

  /** From which silence on it is said: far longer than most are. */
  findGaps() {
    const { time } = this.model;
    const list = this.list;
    const samples = [];
    const stride = Math.max(1, Math.floor(list.length / 2000));
    for (let k = 1; k < list.length; k += stride) samples.push(time[list[k]] - time[list[k - 1]]);
    samples.sort((a, b) => a - b);
    this.median = samples[samples.length >> 1] || 0;
    this.gap = Math.max(20 * this.median, 100e3);
  }

  /** A scale at which the events from that place on can be told apart. */
  firstScale(from = 0) {
    const last = Math.min(this.list.length - 1, from + Math.max(8, Math.floor(this.height / 32)));
    if (last <= from) return 1e-3;
    const span = this.model.time[this.list[last]] - this.model.time[this.list[from]];
    return this.height / Math.max(span * 1.1, 1e3);
  }

  get total() { return this.mode === 'steps' ? this.list.length : Math.max(this.end - this.first, 1); }
  get begin() { return this.mode === 'steps' ? 0 : this.first; }
  get margin() { return this.mode === 'steps' ? 0.5 : 20 / this.time.scale; }

  clamp() {
    const v = this.view;
    const least = Math.min(this.height / (this.total * 1.04), this.mode === 'steps' ? ROW : Infinity);
    v.scale = Math.min(Math.max(v.scale, least), this.mode === 'steps' ? 60 : 5);
    const shown = this.height / v.scale;
    const low = this.begin - this.margin;
    const high = this.begin + this.total + this.margin - shown;
    v.top = Math.max(low, Math.min(v.top, Math.max(high, low)));
  }

  y(k) {
    return this.mode === 'steps' ? (k + 0.5 - this.steps.top) * this.steps.scale :
      this.yOfTime(this.model.time[this.list[k]]);
  }

  /** Where the arrow of place k ends. Rows slant a little, for the direction of time. */
  arrivalY(k, y) {
    if (this.mode === 'steps') return y + Math.min(5, this.steps.scale * 0.2);
    const arrived = this.model.arrived[this.list[k]];
    return Number.isNaN(arrived) ? y + 14 : this.yOfTime(arrived);
  }

  /** In the mode of time. */
  yOfTime(t) { return (t - this.time.top) * this.time.scale; }

  /** Places [a, b) that begin in what is seen. */
  range() {
    const v = this.view;
    const bottom = v.top + this.height / v.scale;
    if (this.mode === 'steps') {
      return [Math.max(0, Math.floor(v.top)), Math.min(this.list.length, Math.ceil(bottom))];
    }
    return [this.placeAt(v.top - this.margin), this.placeAt(bottom + this.margin)];
  }

  /** Places before `a` whose arrows end in what is seen, or below. */
  underway(a) {
    if (this.mode === 'steps') return [];
    const top = this.time.top - this.margin;
    const places = [];
    for (let k = Math.max(this.placeAt(top - this.maxTransit), a - MOST_UNDERWAY); k < a; ++k) {
      if (this.model.arrived[this.list[k]] >= top) places.push(k);
    }
    return places;
  }

  /** The times of what is seen. */
  times() {
    const v = this.view;
    if (this.mode === 'time') return [v.top, v.top + this.height / v.scale];
    if (!this.list.length) return [0, 0];
    const at = (k) => this.model.time[this.list[Math.min(Math.max(k, 0), this.list.length - 1)]];
    return [at(Math.floor(v.top)), at(Math.ceil(v.top + this.height / v.scale) - 1)];
  }

  pan(pixels) {
    const before = this.view.top;
    this.view.top += pixels / this.view.scale;
    this.clamp();
    return this.view.top !== before;
  }

  zoom(factor, y) {
    const v = this.view;
    const fixed = v.top + y / v.scale;
    v.scale *= factor;
    this.clamp();
    v.top = fixed - y / v.scale;
    this.clamp();
  }

  showAll() {
    this.view.scale = 0;
    this.view.top = this.begin;
    this.clamp();
  }

  /** Keeps the event at the top at the top. */
  setMode(mode) {
    if (mode === this.mode) return;
    const [from] = this.times();
    const place = placeOfTime(this.model, this.list, from);
    this.mode = mode;
    if (mode === 'time') this.time.scale = this.firstScale(Math.min(place, this.list.length - 1));
    this.view.top = mode === 'time' ? from : place;
    this.clamp();
  }

  center(k) {
    const v = this.view;
    const at = this.mode === 'steps' ? k + 0.5 : this.model.time[this.list[k]];
    v.top = at - this.height / v.scale / 2;
    this.clamp();
  }

  reveal(k) {
    const y = this.y(k);
    if (y < 24 || y > this.height - 24) this.center(k);
  }

  showTimes(from, to) {
    if (this.mode === 'time') {
      this.time.scale = this.height / Math.max(to - from, 1);
      this.time.top = from;
    } else {
      const a = placeOfTime(this.model, this.list, from);
      const b = placeOfTime(this.model, this.list, to);
      this.steps.scale = Math.min(ROW, this.height / Math.max(b - a, 1));
      this.steps.top = a;
    }
    this.clamp();
  }
}
