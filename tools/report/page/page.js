// The page: its parts, and what one tells the others.

class Page {
  constructor(model) {
    this.model = model;
    this.conversation = -1;
    this.axis = new Axis(model);
    this.ladder = new Ladder(byId('ladder'), model, this.axis);
    this.minimap = new Minimap(byId('minimap'), this.axis, () => this.redraw());
    this.search = new Search(model);
    this.details = new Details(byId('details'), model, (i) => this.select(i));
    this.input = new LadderInput(this.ladder, {
      change: () => this.redraw(), select: (i) => this.select(i), step: (by) => this.step(by),
      details: () => byId('details').focus(),
    });
    this.conversations = new ConversationList(byId('conversation-list'), byId('conversation-filter'), model,
      (c) => { this.show(c); this.fold(true); });
    this.requests = new RequestTable(byId('request-head'), byId('request-list'), model,
      (r) => this.select(model.eventOfRequest(r)));
    this.chart = new Chart(byId('chart'), byId('tip'), model, {
      move: (from, to) => { this.axis.showTimes(from, to); this.redraw(); },
      jump: (t) => this.jumpToTime(t),
    });
    this.wire();
    this.writeHeader();
    this.details.show(-1);
    this.show(this.busiest());
  }

  /** The conversation with trouble, or else the one that has the most to show. */
  busiest() {
    const { troubles, packets, conversations } = this.model;
    let best = 0;
    const worth = (c) => Math.min(troubles[c], 1) * 2 ** 40 + packets[c];
    for (let c = 1; c < conversations.length; ++c) if (worth(c) > worth(best)) best = c;
    return best;
  }

  wire() {
    const click = (id, act) => byId(id).addEventListener('click', act);
    click('mode-steps', () => this.setMode('steps'));
    click('mode-time', () => this.setMode('time'));
    click('zoom-in', () => this.zoom(1.6));
    click('zoom-out', () => this.zoom(1 / 1.6));
    click('zoom-all', () => { this.axis.showAll(); this.redraw(); });
    click('next-error', () => this.nextError());
    click('theme', () => this.toggleTheme());
    click('fold', () => this.fold());
    click('fold-below', () => this.foldBelow());
    click('tab-time', () => this.showPane('time'));
    click('tab-requests', () => this.showPane('requests'));
    byId('only-errors').addEventListener('change', () => this.refilter());
    byId('everything').addEventListener('change', () => this.showBelow());
    byId('find-form').addEventListener('submit', (e) => { e.preventDefault(); this.find(); });
    document.addEventListener('keydown', (e) => this.key(e));
    for (const id of ['ladder', 'chart']) new ResizeObserver(() => this.redraw()).observe(byId(id));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
  }

  key(e) {
    if (e.target.matches('input[type="search"]') && e.key !== 'Escape') return;
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const actions = {
      '+': () => this.zoom(1.6), '=': () => this.zoom(1.6), '-': () => this.zoom(1 / 1.6),
      0: () => { this.axis.showAll(); this.redraw(); },
      m: () => this.setMode(this.axis.mode === 'steps' ? 'time' : 'steps'),
      n: () => this.nextError(), e: () => byId('only-errors').click(), t: () => this.toggleTheme(),
      b: () => this.foldBelow(), '/': () => byId('find').focus(), j: () => this.step(1), k: () => this.step(-1),
      Escape: () => { this.select(-1); byId('ladder').focus(); },
    };
    if (!actions[e.key]) return;
    e.preventDefault();
    actions[e.key]();
  }

  // ------------------------------------------------------------ what is shown

  show(c) {
    if (c < 0 || c >= this.model.conversations.length) return this.redraw();
    if (c !== this.conversation) {
      this.conversation = c;
      this.ladder.oneEnd = !this.model.conversations[c].right.name;
      this.ladder.selected = -1;
      this.ladder.selectedRequest = -1;
      this.details.show(-1);
      this.writeEnds();
    }
    this.conversations.show(c);
    this.axis.height = byId('ladder').clientHeight || 400;
    this.refilter();
    this.showBelow();
  }

  refilter() {
    const only = byId('only-errors').checked;
    this.axis.setList(only ? this.model.errorsOf(this.conversation) : this.model.eventsOf(this.conversation));
    const k = this.axis.list.indexOf(this.ladder.selected);
    if (k >= 0) this.axis.center(k);
    this.redraw();
  }

  showBelow() {
    const all = byId('everything').checked;
    this.chart.show(this.conversation, all);
    if (!byId('pane-requests').hidden) this.requests.show(this.conversation, all);
    this.redraw();
  }

  showPane(name) {
    for (const pane of ['time', 'requests']) {
      byId(`pane-${pane}`).hidden = pane !== name;
      byId(`tab-${pane}`).setAttribute('aria-selected', pane === name);
    }
    byId('time-legend').hidden = name !== 'time';
    byId('request-legend').hidden = name !== 'requests';
    this.showBelow();
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.pending = 0;
    this.ladder.colors = readColors();
    this.ladder.draw();
    this.minimap.draw(this.ladder.colors);
    const [from, to] = this.axis.times();
    if (!byId('pane-time').hidden) {
      this.chart.window = [from, to];
      this.chart.draw();
    }
    const n = this.axis.list.length;
    byId('range').textContent = n === 0 ? 'no events' :
      `${plural(n, 'event')} · ${moment(from, (to - from) / 100)} to ${moment(to, (to - from) / 100)}`;
  }

  // ------------------------------------------------------------ what is chosen

  select(i) {
    if (i >= 0 && this.model.conversation[i] !== this.conversation) this.show(this.model.conversation[i]);
    this.ladder.selected = i;
    this.ladder.selectedRequest = i >= 0 ? this.model.request[i] : -1;
    this.details.show(i);
    if (i >= 0) {
      if (this.axis.list.indexOf(i) < 0) {
        byId('only-errors').checked = false;
        this.refilter();
      }
      if (this.ladder.dense) this.axis.view.scale = this.axis.mode === 'steps' ? ROW : this.axis.firstScale();
      this.axis.clamp();
      this.axis.reveal(this.axis.list.indexOf(i));
      byId('said').textContent = spoken(this.model, i);
      if (this.model.request[i] >= 0 && !byId('pane-requests').hidden) this.requests.reveal(this.model.request[i]);
    } else {
      byId('said').textContent = '';
    }
    this.redraw();
  }

  step(by) {
    const list = this.axis.list;
    if (!list.length) return;
    const k = list.indexOf(this.ladder.selected);
    const next = k < 0 ? this.axis.range()[0] : Math.max(0, Math.min(list.length - 1, k + by));
    this.select(list[next]);
  }

  nextError() {
    const i = this.search.next((e) => this.model.isTrouble(e), this.conversation, this.ladder.selected);
    if (i < 0) byId('said').textContent = 'Nothing went wrong here.';
    else this.select(i);
  }

  find() {
    const matches = this.search.matcher(byId('find').value);
    if (!matches) return;
    const i = this.search.next(matches, this.conversation, this.ladder.selected);
    if (i < 0) byId('said').textContent = `Nothing matches “${byId('find').value}”.`;
    else this.select(i);
  }

  jumpToTime(t) {
    const k = Math.min(placeOfTime(this.model, this.axis.list, t), this.axis.list.length - 1);
    if (k >= 0) this.axis.center(k);
    this.redraw();
  }

  setMode(mode) {
    this.axis.setMode(mode);
    for (const name of ['steps', 'time']) byId(`mode-${name}`).setAttribute('aria-checked', name === mode);
    this.axis.height = byId('ladder').clientHeight;
    const k = this.axis.list.indexOf(this.ladder.selected);
    if (k >= 0) this.axis.center(k);
    this.redraw();
  }

  zoom(factor) {
    const k = this.axis.list.indexOf(this.ladder.selected);
    const y = k >= 0 ? this.axis.y(k) : this.axis.height / 2;
    this.axis.zoom(factor, y >= 0 && y <= this.axis.height ? y : this.axis.height / 2);
    this.redraw();
  }

  toggleTheme() {
    const root = document.documentElement;
    const dark = getComputedStyle(root).getPropertyValue('--is-dark').trim() === '1';
    root.dataset.theme = dark ? 'light' : 'dark';
    this.redraw();
  }

  fold(close) {
    const open = close ? false : byId('fold').getAttribute('aria-expanded') !== 'true';
    byId('fold').setAttribute('aria-expanded', open);
    byId('fold').textContent = open ? 'Close' : 'Choose';
    document.body.classList.toggle('choosing', open);
    this.conversations.list.draw();
  }

  foldBelow() {
    const folded = document.body.classList.toggle('folded');
    byId('fold-below').setAttribute('aria-expanded', !folded);
    byId('fold-below').textContent = folded ? '▴' : '▾';
  }

  // ------------------------------------------------------------ words at the top

  writeEnds() {
    const c = this.model.conversations[this.conversation];
    const card = (end, side) => {
      const [title, ...more] = [end.program, end.name, end.device, end.address,
        end.name && !end.traced && 'not traced'].filter(Boolean);
      return element('div', `end ${side}`, element('b', '', title), element('span', 'mono', more.join(' · ')));
    };
    byId('ends').replaceChildren(card(c.left, 'left'),
      element('span', 'between', [c.type, c.mtu ? `MTU ${c.mtu}` : ''].filter(Boolean).join(' · ')), card(c.right, 'right'));
  }

  writeHeader() {
    const { model } = this;
    const names = model.sources.map((s) => s.file.split('/').pop());
    byId('title').textContent = names.length ? names.join(', ') : 'Verbena report';
    document.title = `${byId('title').textContent} – Verbena report`;
    byId('sources').replaceChildren(...aboutParts(model));
    byId('keys').replaceChildren(...KEYS.map(([key, text]) =>
      element('div', '', element('kbd', '', key), element('span', '', text))));
    byId('tiles').replaceChildren(...tileParts(model));
  }
}
