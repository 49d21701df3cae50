// Wheel, touch, mouse and keys on the ladder, and the map beside it.

class LadderInput {
  /** `on` has change(), select(event), step(count), and details(), which goes there. */
  constructor(ladder, on) {
    this.ladder = ladder;
    this.axis = ladder.axis;
    this.on = on;
    this.pointers = new Map();
    const canvas = ladder.canvas;
    canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
    canvas.addEventListener('pointerdown', (e) => this.down(e));
    canvas.addEventListener('pointermove', (e) => this.move(e));
    for (const name of ['pointerup', 'pointercancel']) {
      canvas.addEventListener(name, (e) => this.up(e));
    }
    canvas.addEventListener('keydown', (e) => this.key(e));
  }

  point(e) {
    const box = this.ladder.canvas.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  }

  wheel(e) {
    const unit = e.deltaMode === 1 ? 18 : e.deltaMode === 2 ? this.axis.height : 1;
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      this.axis.zoom(Math.exp(-e.deltaY * unit * 0.008), this.point(e)[1]);
      this.on.change();
    } else if (this.axis.pan(e.deltaY * unit)) {  // at the end, the page scrolls on
      e.preventDefault();
      this.on.change();
    }
  }

  down(e) {
    if (e.button !== 0) return;
    this.ladder.canvas.setPointerCapture(e.pointerId);
    this.pointers.set(e.pointerId, this.point(e));
    this.moved = this.pointers.size > 1;
    this.speed = 0;
  }

  move(e) {
    const before = this.pointers.get(e.pointerId);
    if (!before) return this.hover(e);
    const now = this.point(e);
    if (this.pointers.size === 2) {
      this.pinch(e.pointerId, now);
    } else if (this.moved || Math.abs(now[1] - before[1]) > 4) {
      this.moved = true;
      this.speed = now[1] - before[1];
      this.axis.pan(-this.speed);
      this.pointers.set(e.pointerId, now);
      this.on.change();
    }
  }

  pinch(id, now) {
    const before = this.pointers.get(id);
    const [other] = [...this.pointers].filter(([key]) => key !== id).map(([, at]) => at);
    const distance = (p) => Math.max(20, Math.hypot(p[0] - other[0], p[1] - other[1]));
    this.axis.zoom(distance(now) / distance(before), (now[1] + other[1]) / 2);
    this.axis.pan((before[1] - now[1]) / 2);
    this.pointers.set(id, now);
    this.moved = true;
    this.on.change();
  }

  up(e) {
    if (!this.pointers.delete(e.pointerId)) return;
    if (e.type === 'pointerup' && !this.moved) this.click(...this.point(e));
    else if (e.pointerType === 'touch' && this.pointers.size === 0 && Math.abs(this.speed) > 3) this.glide();
  }

  /** A flick goes on for a moment. */
  glide() {
    const step = () => {
      this.speed *= 0.94;
      if (Math.abs(this.speed) < 0.4 || this.pointers.size || !this.axis.pan(-this.speed)) return;
      this.on.change();
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  click(x, y) {
    if (this.ladder.dense) {
      this.axis.zoom(12, y);
      return this.on.change();
    }
    this.on.select(this.ladder.eventAt(x, y));
  }

  hover(e) {
    const i = this.ladder.dense ? -1 : this.ladder.eventAt(...this.point(e));
    this.ladder.canvas.style.cursor = this.ladder.dense ? 'zoom-in' : i >= 0 ? 'pointer' : 'default';
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const page = this.axis.height * 0.85;
    const pan = (pixels) => { this.axis.pan(pixels); this.on.change(); };
    const actions = {
      ArrowDown: () => this.on.step(1), ArrowUp: () => this.on.step(-1),
      PageDown: () => pan(page), PageUp: () => pan(-page),
      ' ': () => pan(e.shiftKey ? -page : page),
      Home: () => pan(-Infinity), End: () => pan(Infinity),
      Enter: () => this.on.details(), Escape: () => this.on.select(-1),
    };
    if (!actions[e.key]) return;
    e.preventDefault();
    actions[e.key]();
  }
}

/** The whole conversation beside the ladder: where much happens, where it went wrong, what is seen. */
class Minimap {
  constructor(canvas, axis, change) {
    Object.assign(this, { canvas, axis, change });
    canvas.addEventListener('pointerdown', (e) => {
      canvas.setPointerCapture(e.pointerId);
      this.go(e);
    });
    canvas.addEventListener('pointermove', (e) => { if (canvas.hasPointerCapture(e.pointerId)) this.go(e); });
    canvas.addEventListener('wheel', (e) => {
      e.preventDefault();
      axis.pan(e.deltaY);
      change();
    }, { passive: false });
  }

  go(e) {
    const box = this.canvas.getBoundingClientRect();
    const v = this.axis.view;
    const at = this.axis.begin + this.axis.total * (e.clientY - box.top) / box.height;
    v.top = at - this.axis.height / v.scale / 2;
    this.axis.clamp();
    this.change();
  }

  draw(colors) {
    const { context: c, width, height } = fitCanvas(this.canvas);
    const { axis } = this;
    const rows = Math.max(1, Math.floor(height));
    const { left, right, trouble } = axis.count(axis.begin, (axis.total + 1) / rows, rows);
    let most = 1;
    for (let y = 0; y < rows; ++y) most = Math.max(most, left[y], right[y]);
    const strip = Math.max(7, width / 5);  // of trouble, at the right
    const middle = (width - strip) / 2;
    const length = (n) => (middle - 3) * Math.sqrt(n / most);
    for (let y = 0; y < rows; ++y) {
      c.fillStyle = colors['request-fill'];
      c.fillRect(middle - length(left[y]), y, length(left[y]), 1);
      c.fillStyle = colors['response-fill'];
      c.fillRect(middle, y, length(right[y]), 1);
    }
    c.fillStyle = colors.bad;
    for (let y = 0; y < rows; ++y) if (trouble[y]) c.fillRect(width - strip, y - 0.5, strip, 1.5);
    const v = axis.view;
    const top = (v.top - axis.begin) / axis.total * height;
    const tall = Math.max(6, axis.height / v.scale / axis.total * height);
    c.fillStyle = colors.accent;
    c.globalAlpha = 0.16;
    c.fillRect(0, top, width, tall);
    c.globalAlpha = 1;
    c.strokeStyle = colors.accent;
    c.lineWidth = 1.5;
    c.strokeRect(0.75, Math.max(0.75, top), width - 1.5, Math.min(tall, height - 1.5));
  }
}
