// The ladder: left end, right end, time downwards. Only what is seen is drawn; where there is more
// than one event to a pixel, how many there are.

const FONT = '12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const SMALL = '11px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const DENSE = 1.4;  // events to a pixel from which on they are counted, not drawn

/** The colours of the style sheet, by their names. */
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ['surface', 'ink', 'muted', 'faint', 'line', 'accent', 'tint', 'tint-soft', 'request', 'response',
    'connection', 'again', 'rnr', 'bad', 'good', 'request-fill', 'again-fill', 'response-fill'];
  return Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
}

/** Sizes a canvas for the screen's pixels; the context draws in CSS pixels. */
function fitCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

class Ladder {
  constructor(canvas, model, axis) {
    Object.assign(this, { canvas, model, axis, selected: -1, oneEnd: false, hits: [], labels: [], colors: readColors() });
  }

  draw() {
    const { context, width, height } = fitCanvas(this.canvas);
    Object.assign(this, { c: context, width, height, hits: [], labels: [], crosses: [] });
    const narrow = width < 620;
    this.gutter = narrow ? 80 : 92;
    // Notes stand beside the lifelines, or between them where there is no other room.
    this.inwards = narrow || this.oneEnd;
    const notes = this.inwards ? 0 : Math.min(250, (width - this.gutter) * 0.26);
    this.left = this.gutter + notes + (this.inwards ? 10 : 0);
    this.right = width - notes - 14;
    const axis = this.axis;
    axis.height = height;
    axis.clamp();
    const [a, b] = axis.range();
    this.drawLifelines();
    this.dense = b - a > height * DENSE;
    if (this.dense) this.drawDensity(); else this.drawEvents(a, b);
    this.drawTimes(a, b);
  }

  /** Where lifelines stand. */
  get lifelines() { return this.oneEnd ? [this.left] : [this.left, this.right]; }

  drawLifelines() {
    const c = this.c;
    c.strokeStyle = this.colors.line;
    c.lineWidth = 2;
    c.beginPath();
    for (const x of this.lifelines) {
      c.moveTo(x, 0);
      c.lineTo(x, this.height);
    }
    c.stroke();
  }

  // ------------------------------------------------------------ few events

  drawEvents(a, b) {
    const { model, axis } = this;
    const steps = axis.mode === 'steps';
    this.withText = !steps || axis.steps.scale >= 15;
    const places = axis.underway(a);
    for (let k = a; k < b; ++k) places.push(k);
    for (const k of places) {
      const i = axis.list[k];
      const y = axis.y(k);
      if (steps && k > a && this.withText) this.drawGap(k, y);
      const band = this.bandOf(i);
      if (band) this.drawBand(y, model.kind[i] === Kind.packet ? axis.arrivalY(k, y) : y, band);
    }
    for (const k of places) {
      const i = axis.list[k];
      const y = axis.y(k);
      if (model.kind[i] === Kind.packet) this.drawPacket(i, k, y); else this.drawEnd(i, y);
    }
    this.drawLabels();
    for (const [x, y] of this.crosses) this.drawCross(x, y, 5);
  }

  /** The ground of an event's row, if it has one of its own: it is chosen, or of the chosen request. */
  bandOf(i) {
    if (i === this.selected) return this.colors.tint;
    const steps = this.axis.mode === 'steps';
    const same = this.selectedRequest >= 0 && this.model.request[i] === this.selectedRequest;
    return steps && same ? this.colors['tint-soft'] : '';
  }

  drawBand(y, to, color) {
    const c = this.c;
    const steps = this.axis.mode === 'steps';
    const half = steps ? this.axis.steps.scale / 2 : 9;
    const bottom = steps ? y + half : Math.max(to, y) + half;
    c.fillStyle = color;
    c.fillRect(this.gutter - 6, y - half, this.width - this.gutter + 6, bottom - y + half);
    c.fillStyle = this.colors.line;
    for (const x of this.lifelines) c.fillRect(x - 1, y - half, 2, bottom - y + half);
  }

  drawGap(k, y) {
    const { model, axis, c } = this;
    const gap = model.time[axis.list[k]] - model.time[axis.list[k - 1]];
    if (gap < axis.gap) return;
    const at = Math.round(y - axis.steps.scale / 2) + 0.5;
    c.strokeStyle = this.colors.line;
    c.lineWidth = 1;
    c.setLineDash([1, 4]);
    c.beginPath();
    c.moveTo(this.gutter, at);
    c.lineTo(this.width, at);
    c.stroke();
    c.setLineDash([]);
    if (axis.steps.scale < 22) return;
    // Not where the arrow above it ends.
    const atLeft = this.oneEnd || model.right[axis.list[k - 1]] === 0;
    this.labels.push({ x: atLeft ? this.left + 10 : this.right - 10, y: at, text: `${duration(gap)} later`,
      color: this.colors.muted, align: atLeft ? 'left' : 'right', small: true });
  }

  drawPacket(i, k, y) {
    const { model, axis, c } = this;
    const f = model.flags[i];
    const to = axis.arrivalY(k, y);
    const style = styleOf(model, i);
    const x1 = model.right[i] ? this.right : this.left;
    const x2 = model.right[i] ? this.left : this.right;
    const lost = (f & Flag.lost) !== 0;
    const part = lost ? 0.84 : 1;
    const [xe, ye] = [x1 + (x2 - x1) * part, y + (to - y) * part];
    c.strokeStyle = c.fillStyle = this.colors[style.color];
    c.lineWidth = style.width + (i === this.selected ? 1 : 0);
    c.setLineDash(style.dash);
    c.beginPath();
    c.moveTo(x1, y);
    c.lineTo(xe, ye);
    c.stroke();
    c.setLineDash([]);
    if (lost) this.crosses.push([xe, ye]); else this.drawHead(x1, y, xe, ye, f);
    this.hits.push([i, x1, y, xe, ye]);
    this.labelPacket(i, x1, y, x2, to, style);
  }

  /** Open for answers and for what the receiver had already; with a cross for what it didn't take. */
  drawHead(x1, y1, x2, y2, f) {
    const c = this.c;
    const size = this.axis.mode === 'steps' ? Math.min(8, this.axis.steps.scale * 0.5) : 8;
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const point = (turn) => [x2 - size * Math.cos(angle + turn), y2 - size * Math.sin(angle + turn)];
    c.beginPath();
    c.moveTo(...point(0.42));
    c.lineTo(x2, y2);
    c.lineTo(...point(-0.42));
    if (f & Flag.duplicate || f & Flag.response) {
      c.stroke();
    } else {
      c.closePath();
      c.fill();
    }
    if (f & (Flag.dropped | Flag.notTaken)) {
      const back = Math.cos(angle) > 0 ? -14 : 14;
      this.crosses.push([x2 + back, y2 - Math.sin(angle) * 14]);
    }
  }

  drawCross(x, y, size) {
    const c = this.c;
    c.strokeStyle = this.colors.bad;
    c.lineWidth = 2.4;
    c.beginPath();
    c.moveTo(x - size, y - size);
    c.lineTo(x + size, y + size);
    c.moveTo(x + size, y - size);
    c.lineTo(x - size, y + size);
    c.stroke();
  }

  labelPacket(i, x1, y, x2, to, style) {
    if (!this.withText) return;
    const f = this.model.flags[i];
    const lost = (f & Flag.lost) !== 0;
    const part = this.axis.mode === 'steps' ? (lost ? 0.41 : 0.5) : 0.3;
    const room = Math.abs(x2 - x1) * (lost ? 0.84 : 1) - (f & (Flag.dropped | Flag.notTaken) ? 56 : 28);
    const along = [0, 0.2, 0.4, -0.12].map((more) => [(x2 - x1) * more, (to - y) * more]);
    this.labels.push({ x: x1 + (x2 - x1) * part, y: y + (to - y) * part, along, align: 'center',
      text: signsOf(f) + packetLabel(this.model, i),
      color: this.colors[lost && !(f & Flag.again) ? 'bad' : style.color], back: this.bandOf(i), width: room,
      bold: i === this.selected, first: i === this.selected || (f & TROUBLE) !== 0 });
  }

  drawEnd(i, y) {
    const c = this.c;
    const right = this.model.right[i] === 1;
    const x = right ? this.right : this.left;
    const [sign, color, text] = endLabel(this.model, i);
    const small = this.axis.mode === 'steps' && this.axis.steps.scale < 15;
    c.fillStyle = this.bandOf(i) || this.colors.surface;
    c.beginPath();
    c.arc(x, y, small ? 2 : 8, 0, 7);
    c.fill();
    c.fillStyle = this.colors[color];
    c.textBaseline = 'middle';
    if (small) {
      c.fillRect(x - 3, y - 1, 6, 2);
    } else {
      c.font = `bold ${FONT}`;
      c.textAlign = 'center';
      c.fillText(sign, x, y + 0.5);
    }
    const toRight = this.inwards !== right;  // its text, from the lifeline
    this.hits.push([i, x, y, x + (toRight ? 1 : -1) * (small ? 20 : 130), y]);
    if (!this.withText) return;
    const room = this.inwards ? this.right - this.left - 12 : right ? this.width - this.right : this.left - this.gutter;
    this.labels.push({ x: x + (toRight ? 13 : -13), y, text, color: this.colors[color],
      align: toRight ? 'left' : 'right', back: this.bandOf(i), width: room - 14,
      bold: i === this.selected, first: i === this.selected || this.model.isTrouble(i) });
  }

  /** In the mode of time, labels look for a free place along their arrow; what went wrong comes first. */
  drawLabels() {
    if (this.axis.mode === 'steps') return this.labels.forEach((label) => this.drawLabel(label));
    const taken = [];
    for (const label of [...this.labels].sort((a, b) => b.first - a.first)) {
      const box = this.measure(label);
      for (const [dx, dy] of label.along || [[0, 0]]) {
        const most = this.right - 6 - box[1];  // centred labels stay between the ends
        const by = label.align === 'center' ? Math.max(this.left + 10 - box[0], Math.min(most, dx)) : dx;
        const at = [box[0] + by, box[1] + by];
        const y = label.y + dy;
        if (!taken.every(([x1, y1, x2]) => Math.abs(y - y1) > 14 || at[0] > x2 || at[1] < x1)) continue;
        taken.push([at[0], y, at[1]]);
        this.drawLabel({ ...label, x: label.x + by, y });
        break;
      }
    }
  }

  /** [left, right] of a label. */
  measure(label) {
    const c = this.c;
    c.font = label.small ? SMALL : label.bold ? `600 ${FONT}` : FONT;
    label.text = this.fitText(label.text, label.width || this.width);
    const w = c.measureText(label.text).width;
    const left = label.align === 'center' ? label.x - w / 2 : label.align === 'right' ? label.x - w : label.x;
    return [left - 5, left + w + 5];
  }

  drawLabel(label) {
    const c = this.c;
    const [left, right] = this.measure(label);
    c.fillStyle = label.back || this.colors.surface;
    c.fillRect(left, label.y - 7, right - left, 14);
    c.fillStyle = label.color;
    c.textAlign = label.align;
    c.textBaseline = 'middle';
    c.fillText(label.text, label.x, label.y + 0.5);
  }

  fitText(text, width) {
    const c = this.c;
    if (c.measureText(text).width <= width) return text;
    const parts = text.split(' · ');
    while (parts.length > 1) {
      parts.pop();
      const shorter = parts.join(' · ') + ' …';
      if (c.measureText(shorter).width <= width) return shorter;
    }
    let n = parts[0].length;
    while (n > 1 && c.measureText(parts[0].slice(0, n) + '…').width > width) --n;
    return parts[0].slice(0, n) + '…';
  }

  // ------------------------------------------------------------ many events

  drawDensity() {
    const { axis, c } = this;
    const rows = Math.ceil(this.height);
    const counts = axis.count(axis.view.top, 1 / axis.view.scale, rows);
    let most = 1;
    for (let y = 0; y < rows; ++y) most = Math.max(most, counts.left[y], counts.right[y]);
    const room = (this.right - this.left) / 2 - 30;
    const length = (n) => (n === 0 ? 0 : Math.max(2, room * Math.sqrt(n / most)));
    const bar = (color, x, y, long) => {
      if (!long) return;
      c.fillStyle = this.colors[color];
      c.fillRect(x, y, long, 1);
    };
    for (let y = 0; y < rows; ++y) {
      bar('request-fill', this.left + 1, y, length(counts.left[y]));
      bar('again', this.left + 1, y, length(counts.leftAgain[y]));
      bar('response-fill', this.right - 1, y, -length(counts.right[y]));
      bar('again', this.right - 1, y, -length(counts.rightAgain[y]));
    }
    this.drawTroubleMarks(counts.trouble, most);
  }

  drawTroubleMarks(trouble, most) {
    let free = -20;
    const x = (this.left + this.right) / 2;
    for (let y = 0; y < trouble.length; ++y) {
      if (!trouble[y]) continue;
      this.c.fillStyle = this.colors.bad;
      const half = 3 + 12 * Math.sqrt(Math.min(1, trouble[y] / most));
      this.c.fillRect(x - half, y, 2 * half, 1);
      if (y - free > 13) {
        this.drawCross(x + 21, y, 3);
        free = y;
      }
    }
  }

  // ------------------------------------------------------------ the times at the left

  drawTimes(a, b) {
    const { c, axis, model } = this;
    c.font = SMALL;
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    c.fillStyle = this.colors.muted;
    const [from, to] = axis.times();
    if (axis.mode === 'time') return this.drawTimeScale(from, to);
    let last = -99;
    for (let k = a; k < b; ++k) {
      const y = axis.y(k);
      if (this.dense || axis.steps.scale < 14) {
        if (y - last < 24) { k += Math.max(0, Math.floor((24 - (y - last)) / axis.steps.scale) - 1); continue; }
      }
      last = y;
      if (y < 7 || y > this.height - 7) continue;  // half a number is no number
      c.fillText(moment(model.time[axis.list[k]], Math.max(axis.median / 10, 10)), this.gutter - 12, y + 0.5);
    }
  }

  drawTimeScale(from, to) {
    const c = this.c;
    const step = roundStep((to - from) / (this.height / 60));
    c.strokeStyle = this.colors.line;
    c.lineWidth = 1;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const y = Math.round(this.axis.yOfTime(t)) + 0.5;
      c.globalAlpha = 0.55;
      c.beginPath();
      c.moveTo(this.gutter - 6, y);
      c.lineTo(this.gutter + 2, y);
      c.stroke();
      c.globalAlpha = 1;
      c.fillText(moment(t, step), this.gutter - 12, y);
    }
  }

  /** The event at a point of the canvas, or -1. */
  eventAt(x, y) {
    let best = -1;
    let nearest = 10;
    for (const [i, x1, y1, x2, y2] of this.hits) {
      const [dx, dy] = [x2 - x1, y2 - y1];
      const part = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
      const distance = Math.hypot(x - x1 - part * dx, y - y1 - part * dy);
      if (distance < nearest) { nearest = distance; best = i; }
    }
    return best;
  }
}
