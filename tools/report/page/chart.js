// Throughput over time in both directions, and the states of both queue pairs, on one time axis.

const STATE_COLORS = { RESET: 'faint', INIT: 'muted', RTR: 'connection', RTS: 'good', SQD: 'rnr', SQE: 'again', ERR: 'bad' };

class Chart {
  /** `on.move(from, to)`: the part of time that was chosen. */
  constructor(canvas, tip, model, on) {
    Object.assign(this, { canvas, tip, model, on, from: 0, to: Math.max(model.end, 1), conversation: 0, all: false, window: [0, 0] });
    canvas.addEventListener('pointerdown', (e) => this.down(e));
    canvas.addEventListener('pointermove', (e) => this.move(e));
    canvas.addEventListener('pointerup', (e) => this.up(e));
    canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
    canvas.addEventListener('dblclick', () => this.zoomTo(0, Math.max(model.end, 1)));
    canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
    canvas.addEventListener('keydown', (e) => this.key(e));
  }

  show(conversation, all) {
    const range = this.rangeOf(conversation, all);
    if (this.conversation !== conversation || this.all !== all) [this.from, this.to] = range;
    Object.assign(this, { conversation, all, bins: null, states: null });
  }

  rangeOf(conversation, all) {
    const list = this.model.eventsOf(conversation);
    if (all || !list.length) return [0, Math.max(this.model.end, 1)];
    const [a, b] = [this.model.time[list[0]], this.model.time[list[list.length - 1]]];
    const margin = Math.max((b - a) * 0.01, 500);
    return [a - margin, b + margin];
  }

  zoomTo(from, to) {
    const room = Math.max(to - from, 1000);
    [this.from, this.to] = [from, from + room];
    this.bins = null;
    this.draw();
  }

  x(t) { return this.plot[0] + (t - this.from) / (this.to - this.from) * (this.plot[1] - this.plot[0]); }
  t(x) { return this.from + (x - this.plot[0]) / (this.plot[1] - this.plot[0]) * (this.to - this.from); }

  // ------------------------------------------------------------ counting

  count(bins) {
    const { model } = this;
    const empty = () => new Float64Array(bins);
    const result = { first: [empty(), empty()], again: [empty(), empty()], bad: new Uint32Array(bins), bins };
    const list = this.all ? null : model.eventsOf(this.conversation);
    const n = list ? list.length : model.length;
    const scale = bins / (this.to - this.from);
    for (let k = 0; k < n; ++k) {
      const i = list ? list[k] : k;
      if (model.kind[i] !== Kind.packet || model.time[i] < this.from || model.time[i] > this.to) continue;
      const bin = Math.min(bins - 1, Math.floor((model.time[i] - this.from) * scale));
      const again = model.flags[i] & Flag.again;
      (again ? result.again : result.first)[model.right[i]][bin] += model.bytes[i];
      if (model.flags[i] & TROUBLE) ++result.bad[bin];
    }
    result.most = [0, 1].map((side) => result.first[side].reduce((most, v, bin) => Math.max(most, v + result.again[side][bin]), 0));
    return result;
  }

  /** For both ends: [{from, to, name}]. */
  findStates() {
    const { model } = this;
    const ends = [[], []];
    const list = model.eventsOf(this.conversation);
    for (const i of list) {
      if (model.kind[i] !== Kind.state) continue;
      const [before, after] = model.text(model.what[i]).split(',')[0].split(/\s*→\s*/);
      const end = ends[model.right[i]];
      if (end.length) end[end.length - 1].to = model.time[i];
      else if (before && after) end.push({ from: -Infinity, to: model.time[i], name: before });
      end.push({ from: model.time[i], to: Infinity, name: after || before });
    }
    return ends;
  }

  // ------------------------------------------------------------ drawing

  draw() {
    const { context: c, width, height } = fitCanvas(this.canvas);
    if (width === 0) return;
    const colors = this.colors = readColors();
    this.plot = [width < 620 ? 66 : 100, width - 14];
    const lanes = 2 * 17 + 8;
    const axisHeight = 18;
    const bottom = height - axisHeight - lanes;
    const bins = Math.max(20, Math.floor((this.plot[1] - this.plot[0]) / 3));
    if (!this.bins || this.bins.bins !== bins) this.bins = this.count(bins);
    this.states = this.states || this.findStates();
    this.middle = 6 + (bottom - 12) / 2;
    c.font = SMALL;
    c.textBaseline = 'middle';
    this.drawGrid(c, colors, height - axisHeight, height);
    this.drawBars(c, colors, (bottom - 14) / 2);
    this.drawStates(c, colors, bottom + 2);
    this.drawWindow(c, colors, height - axisHeight);
  }

  drawGrid(c, colors, bottom, height) {
    const [x1, x2] = this.plot;
    const step = roundStep((this.to - this.from) / ((x2 - x1) / 110));
    c.textAlign = 'center';
    c.lineWidth = 1;
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      c.strokeStyle = colors.line;
      c.globalAlpha = 0.6;
      c.beginPath();
      c.moveTo(x, 4);
      c.lineTo(x, bottom);
      c.stroke();
      c.globalAlpha = 1;
      c.fillStyle = colors.muted;
      if (x > x1 + 20 && x < x2 - 24) c.fillText(moment(t, step), x, height - 8);
    }
    c.strokeStyle = colors.muted;
    c.beginPath();
    c.moveTo(x1, this.middle + 0.5);
    c.lineTo(x2, this.middle + 0.5);
    c.stroke();
  }

  drawBars(c, colors, room) {
    const { first, again, most, bins, bad } = this.bins;
    const wide = (this.plot[1] - this.plot[0]) / bins;
    const seconds = (this.to - this.from) / bins / 1e9;
    const top = Math.max(...most, 1);
    for (let side = 0; side < 2; ++side) {
      const up = side === 0 ? -1 : 1;
      for (let bin = 0; bin < bins; ++bin) {
        const x = this.plot[0] + bin * wide;
        const a = first[side][bin] / top * room;
        const b = again[side][bin] / top * room;
        if (a) this.bar(c, colors[side ? 'response-fill' : 'request-fill'], x, wide, this.middle, up, 0, a);
        if (b) this.bar(c, colors.again, x, wide, this.middle, up, a, b);
      }
      if (!most[side]) continue;
      c.fillStyle = colors.muted;
      c.textAlign = 'right';
      c.fillText(side ? '← peak' : '→ peak', this.plot[0] - 8, this.middle + up * room * 0.5 - 8);
      c.fillText(rateText(most[side] / seconds), this.plot[0] - 8, this.middle + up * room * 0.5 + 7);
    }
    if (!most[0] && !most[1]) {
      c.textAlign = 'center';
      c.fillStyle = colors.muted;
      c.fillText('no packets', (this.plot[0] + this.plot[1]) / 2, this.middle - 10);
    }
    c.fillStyle = colors.bad;
    for (let bin = 0; bin < bins; ++bin) if (bad[bin]) c.fillRect(this.plot[0] + bin * wide, 0, Math.max(1.5, wide - 0.5), 4);
  }

  bar(c, color, x, wide, middle, up, from, tall) {
    const high = Math.max(tall, 1);
    c.fillStyle = color;
    c.fillRect(x, up < 0 ? middle - from - high : middle + 1 + from, Math.max(1, wide - 0.6), high);
  }

  drawStates(c, colors, top) {
    const { left, right, type } = this.model.conversations[this.conversation] || { type: 'SRQ' };
    if (type === 'SRQ') return;
    [left, right].forEach((end, side) => {
      if (!end.name) return;
      const list = this.states[side];
      const y = top + side * 19;
      c.textAlign = 'right';
      c.fillStyle = colors.muted;
      c.fillText(end.name.replace('QP ', ''), this.plot[0] - 8, y + 8);
      for (const { from, to, name } of list) {
        const x1 = Math.max(this.plot[0], this.x(Math.max(from, this.from)));
        const x2 = Math.min(this.plot[1], this.x(Math.min(to, this.to)));
        if (x2 <= x1) continue;
        const color = colors[STATE_COLORS[name] || 'muted'];
        c.fillStyle = color;
        c.globalAlpha = 0.16;
        c.fillRect(x1, y, x2 - x1, 16);
        c.globalAlpha = 1;
        c.fillRect(x1, y, 2, 16);
        c.textAlign = 'left';
        if (c.measureText(name).width + 10 < x2 - x1) c.fillText(name, x1 + 6, y + 8.5);
      }
      if (!list.length) {
        c.textAlign = 'left';
        c.fillText('no states recorded', this.plot[0] + 6, y + 8.5);
      }
    });
  }

  drawWindow(c, colors, bottom) {
    const [from, to] = this.brush || this.window;
    const x1 = Math.max(this.plot[0], Math.min(this.plot[1], this.x(from)));
    const x2 = Math.max(this.plot[0], Math.min(this.plot[1], this.x(to)));
    c.fillStyle = colors.accent;
    c.globalAlpha = 0.12;
    c.fillRect(x1, 0, Math.max(2, x2 - x1), bottom);
    c.globalAlpha = 0.9;
    c.fillRect(x1 - 0.5, 0, 1.5, bottom);
    c.fillRect(Math.max(x2, x1 + 2) - 0.5, 0, 1.5, bottom);
    c.globalAlpha = 1;
  }

  // ------------------------------------------------------------ hands

  at(e) { return e.clientX - this.canvas.getBoundingClientRect().left; }

  down(e) {
    this.canvas.setPointerCapture(e.pointerId);
    this.start = this.at(e);
    const t = this.t(this.start);
    const [from, to] = this.window;
    this.grab = t >= from && t <= to && this.x(to) - this.x(from) > 12 ? [from, to] : null;
  }

  move(e) {
    if (!this.plot) return;
    const x = this.at(e);
    if (this.start === undefined) return this.showTip(x, e);
    if (Math.abs(x - this.start) < 3 && !this.brush && !this.dragged) return;
    const [a, b] = [this.t(this.start), this.t(x)];
    if (this.grab) {
      this.dragged = true;
      this.on.move(this.grab[0] + b - a, this.grab[1] + b - a);
    } else {
      this.brush = [Math.min(a, b), Math.max(a, b)];
      this.draw();
    }
  }

  up(e) {
    if (this.start === undefined) return;
    if (this.brush) this.on.move(...this.brush);
    else if (!this.dragged) this.on.jump(this.t(this.at(e)));
    this.start = this.brush = this.dragged = this.grab = undefined;
    this.draw();
  }

  wheel(e) {
    if (!e.ctrlKey && !e.metaKey && !e.shiftKey && Math.abs(e.deltaX) < Math.abs(e.deltaY)) return;
    e.preventDefault();
    const t = this.t(this.at(e));
    if (e.ctrlKey || e.metaKey) {
      const factor = Math.exp(e.deltaY * 0.008);
      this.zoomTo(t - (t - this.from) * factor, t + (this.to - t) * factor);
    } else {
      const by = (e.deltaX || e.deltaY) / (this.plot[1] - this.plot[0]) * (this.to - this.from);
      this.zoomTo(this.from + by, this.to + by);
    }
  }

  key(e) {
    const [from, to] = this.window;
    const by = { ArrowLeft: -0.5, ArrowRight: 0.5, PageUp: -1, PageDown: 1 }[e.key];
    if (by === undefined) return;
    e.preventDefault();
    this.on.move(from + by * (to - from), to + by * (to - from));
  }

  showTip(x, e) {
    if (x < this.plot[0] || x > this.plot[1] || !this.bins) { this.tip.hidden = true; return; }
    const { first, again, bins, bad } = this.bins;
    const bin = Math.min(bins - 1, Math.floor((x - this.plot[0]) / (this.plot[1] - this.plot[0]) * bins));
    const seconds = (this.to - this.from) / bins / 1e9;
    const line = (sign, side) => `${sign} ${rateText(first[side][bin] / seconds)}` +
      (again[side][bin] ? `, ${rateText(again[side][bin] / seconds)} again` : '');
    const t = this.t(x);
    const states = this.states.map((list) => list.find((s) => t >= s.from && t < s.to)?.name);
    this.tip.replaceChildren(element('b', '', moment(t, (this.to - this.from) / bins)),
      element('div', '', line('→', 0)), element('div', '', line('←', 1)),
      states.some(Boolean) ? element('div', 'quiet', states.map((name) => name || '–').join(' → ')) : '',
      bad[bin] ? element('div', 'bad', plural(bad[bin], 'packet') + ' in trouble') : '');
    this.tip.hidden = false;
    const box = this.canvas.parentElement.getBoundingClientRect();
    this.tip.style.left = `${Math.min(e.clientX - box.left + 12, box.width - this.tip.offsetWidth - 4)}px`;
  }
}
