// Long lists of which only the rows that are seen exist: conversations and requests.

const TALLEST = 8e6;  // pixels; browsers give up somewhat above

class VirtualList {
  /** fill(row, place) writes a row; choose(place) is a click or Enter. */
  constructor(box, rowHeight, fill, choose) {
    Object.assign(this, { box, rowHeight, fill, choose, count: 0, current: -1, rows: [] });
    this.inner = element('div', 'inner');
    box.append(this.inner);
    box.addEventListener('scroll', () => this.draw());
    box.addEventListener('keydown', (e) => this.key(e));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  setCount(count) {
    this.count = count;
    this.inner.style.height = `${Math.min(count * this.rowHeight, TALLEST)}px`;
    this.draw();
  }

  /** The first row that is seen; beyond TALLEST a pixel of the scroll bar stands for several. */
  get top() {
    const real = this.count * this.rowHeight;
    const room = Math.max(Math.min(real, TALLEST) - this.box.clientHeight, 1);
    const factor = real > TALLEST ? Math.max(real - this.box.clientHeight, 0) / room : 1;
    return this.box.scrollTop * factor;
  }

  draw() {
    const shown = this.box.clientHeight;
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - 2);
    const last = Math.min(this.count, Math.ceil((this.top + shown) / this.rowHeight) + 2);
    while (this.rows.length < last - first) {
      const row = element('div', 'row');
      row.addEventListener('click', () => this.pick(row.place));
      this.rows.push(row);
      this.inner.append(row);
    }
    this.rows.forEach((row, n) => {
      const place = first + n;
      row.hidden = place >= last;
      if (row.hidden) return;
      row.place = place;
      row.id = `${this.box.id}-${place}`;
      row.style.transform = `translateY(${place * this.rowHeight - this.top + this.box.scrollTop}px)`;
      row.classList.toggle('current', place === this.current);
      row.setAttribute('aria-selected', place === this.current);
      this.fill(row, place);
    });
    if (this.current >= first && this.current < last) {
      this.box.setAttribute('aria-activedescendant', `${this.box.id}-${this.current}`);
    } else {
      this.box.removeAttribute('aria-activedescendant');
    }
  }

  reveal(place) {
    this.current = place;
    const y = place * this.rowHeight;
    if (place >= 0 && (y < this.top || y + this.rowHeight > this.top + this.box.clientHeight)) {
      const real = this.count * this.rowHeight;
      const wanted = y - this.box.clientHeight / 2;
      this.box.scrollTop = real > TALLEST ?
        wanted / Math.max(real - this.box.clientHeight, 1) * (TALLEST - this.box.clientHeight) : wanted;
    }
    this.draw();
  }

  pick(place) {
    this.current = place;
    this.draw();
    this.choose(place);
  }

  key(e) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.rowHeight) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[e.key];
    if (by !== undefined && this.count) {
      e.preventDefault();
      this.reveal(Math.max(0, Math.min(this.count - 1, this.current + by)));
    } else if (e.key === 'Enter' && this.current >= 0) {
      e.preventDefault();
      this.choose(this.current);
    }
  }
}

/** "rping 4711 → 4712", "rping 4711 → ucx_perftest 4712". */
function programsOf(left, right) {
  const [a, b] = [left.program, right.program].map((program) => program.split(/ (?=\d+$)/));
  const second = a[0] === b[0] && b[1] ? b[1] : right.program;
  return [left.program, second].filter(Boolean).join(' → ');
}

class ConversationList {
  constructor(box, filter, model, choose) {
    this.model = model;
    this.shown = [...model.conversations.keys()];
    this.list = new VirtualList(box, 52, (row, place) => this.fill(row, this.shown[place]),
      (place) => choose(this.shown[place]));
    filter.addEventListener('input', () => this.filter(filter.value.trim().toLowerCase()));
    this.list.setCount(this.shown.length);
  }

  fill(row, c) {
    const { model } = this;
    if (row.conversation === c) return;
    row.conversation = c;
    row.setAttribute('role', 'option');
    const { left, right, type } = model.conversations[c];
    const names = [left.name, right.name].filter(Boolean).map((name) => name.replace(/^QP /, ''));
    const bad = model.troubles[c];
    row.replaceChildren(
      element('div', 'line', element('span', 'mono', names.join(' → ')), element('span', 'tag', type)),
      element('div', 'line small', element('span', 'name', programsOf(left, right) || left.address),
        bad ? element('span', 'count bad', `✗ ${countText(bad)}`) : null,
        element('span', 'count', countText(model.packets[c] || model.eventsOf(c).length))));
    row.title = [left, right].filter((end) => end.name).map((end) => `${endTitle(end)} ${end.address}`).concat(
      `${plural(model.packets[c], 'packet')}, ${plural(model.eventsOf(c).length, 'event')}, ${countText(bad)} in trouble`)
      .join('\n');
  }

  filter(text) {
    this.shown = [...this.model.conversations.keys()].filter((c) => {
      const { left, right, type } = this.model.conversations[c];
      return [left, right].some((end) => [end.name, String(end.qpn), end.program, end.address, end.device]
        .some((t) => t.toLowerCase().includes(text))) || type.toLowerCase() === text;
    });
    for (const row of this.list.rows) row.conversation = undefined;
    this.list.setCount(this.shown.length);
    this.show(this.conversation);
  }

  show(c) {
    this.conversation = c;
    this.list.reveal(this.shown.indexOf(c));
  }
}

const COLUMNS = [
  ['posted', 'Posted', (m, r) => m.requests.posted[r]],
  ['op', 'Operation', (m, r) => m.text(m.requests.op[r])],
  ['wr', 'wr_id', (m, r) => Number(m.text(m.requests.wrId[r]))],
  ['bytes', 'Bytes', (m, r) => m.requests.bytes[r]],
  ['duration', 'Duration', (m, r) => m.durationOf(r)],
  ['parts', 'Time spent', (m, r) => m.requests.repeating[r]],
  ['again', 'Repeats', (m, r) => m.requests.again[r]],
  ['status', 'Status', (m, r) => m.text(m.requests.status[r])],
];

/** Three parts of a request's time, as wide as their shares. */
function shareBar(model, r) {
  const q = model.requests;
  const parts = [['waiting', q.waiting[r]], ['wire', q.wire[r]], ['repeating', q.repeating[r]]];
  const sum = parts.reduce((s, [, v]) => s + Math.max(v, 0), 0);
  const bar = element('span', 'share');
  for (const [name, value] of parts) {
    if (value <= 0) continue;
    const part = element('i', name);
    part.style.flexGrow = value / sum;
    bar.append(part);
  }
  bar.title = parts.map(([name, v]) => `${name === 'wire' ? 'on the wire' : name} ${duration(v)}`).join(', ');
  return bar;
}

class RequestTable {
  constructor(head, box, model, choose) {
    Object.assign(this, { head, model, sorted: new Uint32Array(0), key: 'posted', down: false });
    this.list = new VirtualList(box, 30, (row, place) => this.fill(row, this.sorted[place]),
      (place) => choose(this.sorted[place]));
    for (const [key, title] of COLUMNS) {
      const button = element('button', '', title);
      button.type = 'button';
      button.addEventListener('click', () => this.sortBy(key));
      const cell = element('div', `cell ${key}`, button);
      cell.setAttribute('role', 'columnheader');
      head.append(cell);
    }
  }

  show(conversation, all) {
    const { end } = this.model.requests;
    const list = [];
    for (let r = 0; r < end.length; ++r) if (all || end[r] >>> 1 === conversation) list.push(r);
    this.sorted = Uint32Array.from(list);
    this.sort();
  }

  /** Numbers: first the largest. */
  sortBy(key) {
    this.down = this.key === key ? !this.down : key !== 'posted' && key !== 'op' && key !== 'wr';
    this.key = key;
    this.sort();
  }

  sort() {
    const value = COLUMNS.find(([key]) => key === this.key)[2];
    const keys = new Map();
    for (const r of this.sorted) {
      const v = value(this.model, r);
      keys.set(r, Number.isNaN(v) ? -1 : v);
    }
    const sign = this.down ? -1 : 1;
    const compare = (a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
    };
    this.sorted = Uint32Array.from(this.sorted).sort(compare);
    [...this.head.children].forEach((cell, n) => {
      const on = COLUMNS[n][0] === this.key;
      cell.setAttribute('aria-sort', on ? (this.down ? 'descending' : 'ascending') : 'none');
    });
    for (const row of this.list.rows) row.request = undefined;
    this.list.current = -1;
    this.list.setCount(this.sorted.length);
  }

  fill(row, r) {
    if (row.request === r) return;
    row.request = r;
    row.setAttribute('role', 'row');
    const { model } = this;
    const q = model.requests;
    const bad = q.failed[r] === 1;
    const cells = {
      posted: moment(q.posted[r], 100), op: model.text(q.op[r]), wr: wrText(model.text(q.wrId[r])),
      bytes: sizeText(q.bytes[r]), duration: duration(model.durationOf(r)), parts: shareBar(model, r),
      again: q.again[r] ? element('b', 'again', `↻ ${countText(q.again[r])}`) : '',
      status: element('span', bad ? 'bad' : 'quiet', requestStatus(model, r)),
    };
    row.replaceChildren(...COLUMNS.map(([key]) => {
      const cell = element('div', `cell ${key}`, cells[key]);
      cell.setAttribute('role', 'gridcell');
      return cell;
    }));
  }

  reveal(r) { this.list.reveal(this.sorted.indexOf(r)); }
}
