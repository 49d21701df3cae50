// What is known of the event that was chosen: its headers field by field, its bytes, its request, the
// rule that applies. Without one: how to read the ladder.

const LEGEND = [
  ['request', '──▶', 'a request: SEND, WRITE, READ, atomic'],
  ['response', '◁──', 'an acknowledgement or a response'],
  ['again', '╌╌▶', '↻ sent again'],
  ['bad', '──✗', 'lost on the way'],
  ['bad', '─✗▶', 'arrived, and dropped or not taken'],
  ['bad', '◁▲─', 'NAK: the responder refuses'],
  ['rnr', '◁◆┈', 'RNR NAK: the receiver is not ready'],
  ['connection', '─·─▶', 'a message of the connection manager'],
  ['ink', '●  ○', 'posted: to the send queue, to the receive queue'],
  ['good', '✓', 'completion; ✗ if it failed'],
  ['again', '↻', 'the requester goes back and sends again'],
  ['muted', '◇', 'the queue pair changes its state'],
];

class Details {
  /** `select(event)` goes to another event. */
  constructor(box, model, select) {
    Object.assign(this, { box, model, select });
  }

  show(i) {
    this.box.classList.toggle('chosen', i >= 0);
    if (i < 0) return this.box.replaceChildren(this.legend());
    const { model } = this;
    const children = [this.title(i), this.times(i), this.rule(i)];
    if (model.kind[i] === Kind.packet) children.push(this.headers(i));
    if (model.request[i] >= 0) children.splice(3, 0, this.request(model.request[i]));
    this.box.replaceChildren(...children.filter(Boolean));
    this.box.scrollTop = 0;
  }

  legend() {
    const list = element('dl', 'legend-list');
    for (const [color, sign, text] of LEGEND) {
      list.append(element('dt', color, sign), element('dd', '', text));
    }
    return element('div', '', element('h2', '', 'How to read it'),
      element('p', 'quiet', 'Time goes down. An arrow begins where a packet left and ends where it arrived. Click one to see its headers.'), list);
  }

  title(i) {
    const { model } = this;
    const close = element('button', 'close', '×');
    close.type = 'button';
    close.setAttribute('aria-label', 'Close details');
    close.addEventListener('click', () => this.select(-1));
    const name = model.kind[i] === Kind.packet ? model.text(model.what[i]) : endLabel(model, i)[2].split(' · ')[0];
    const tags = element('div', 'tags');
    if (model.kind[i] === Kind.packet) {
      const f = model.flags[i];
      const kind = f & TROUBLE ? 'tag bad' : 'tag';
      for (const fate of fatesOf(f)) tags.append(element('span', kind, fate));
      if (f & Flag.oneSided) tags.append(element('span', 'tag', 'seen at one point only'));
      if (f & Flag.ackRequest) tags.append(element('span', 'tag', 'asks for an ACK'));
    }
    return element('div', 'detail-head', close, element('h2', '', name), tags);
  }

  pairs(list) {
    const dl = element('dl', 'pairs');
    for (const [name, value] of list) {
      if (value === '' || value === null) continue;
      dl.append(element('dt', '', name), element('dd', 'mono', value));
    }
    return dl;
  }

  times(i) {
    const { model } = this;
    const c = model.conversations[model.conversation[i]];
    const [from, to] = model.right[i] ? [c.right, c.left] : [c.left, c.right];
    if (model.kind[i] !== Kind.packet) {
      return this.pairs([['at', moment(model.time[i], 1, 9)], ['queue pair', endTitle(from)],
        ['note', model.text(model.note[i])]]);
    }
    const [time, arrived] = [model.time[i], model.arrived[i]];
    const when = model.flags[i] & Flag.oneSided ? [['seen', moment(time, 1, 9)]] : [['left', moment(time, 1, 9)],
      ['arrived', Number.isNaN(arrived) ? '–' : `${moment(arrived, 1, 9)} (${duration(arrived - time)} later)`]];
    return this.pairs([
      ['from', endTitle(from)], ['to', endTitle(to)], ...when,
      ['payload', model.flags[i] & Flag.connection ? '' : `${countText(model.bytes[i])} bytes`],
      ['note', model.text(model.note[i])],
    ]);
  }

  rule(i) {
    const [number, text] = this.model.rules[this.model.rule[i]] || ['', ''];
    if (!text) return null;
    return element('section', 'rule', element('h3', '', number ? `Rule ${number}` : 'Why'), element('p', '', text));
  }

  request(r) {
    const { model } = this;
    const q = model.requests;
    const bad = q.failed[r] === 1;
    const jump = element('button', 'link', `${model.text(q.op[r])} · wr_id ${wrText(model.text(q.wrId[r]))}`);
    jump.type = 'button';
    jump.title = 'To its post';
    jump.addEventListener('click', () => this.select(model.eventOfRequest(r)));
    const since = (t) => (Number.isNaN(t) ? '–' : Number.isNaN(q.posted[r]) ? moment(t, 1, 9) : `+${duration(t - q.posted[r])}`);
    return element('section', '', element('h3', '', 'Request'), jump,
      this.pairs([
        ['bytes', sizeText(q.bytes[r])], ['posted', moment(q.posted[r], 1, 9)],
        ['first sent', since(q.firstSent[r])], ['last sent', since(q.lastSent[r])],
        ['completed', since(q.completed[r])],
        ['status', element('span', bad ? 'bad' : Number.isNaN(q.completed[r]) ? 'quiet' : 'good', requestStatus(model, r))],
        ['packets', `${countText(q.packets[r])}${q.again[r] ? `, ${countText(q.again[r])} sent again` : ''}`],
      ]),
      shareBar(model, r),
      element('div', 'share-key', element('span', 'waiting', `waiting ${duration(q.waiting[r])}`),
        element('span', 'wire', `on the wire ${duration(q.wire[r])}`),
        element('span', 'repeating', `repeating ${duration(q.repeating[r])}`)));
  }

  headers(i) {
    const { model } = this;
    const bytes = model.headerBytes(i);
    if (!bytes.length) return element('p', 'quiet', 'The headers of this packet were not recorded.');
    const dump = this.dump(bytes);
    const box = element('section', 'headers', element('h3', '', 'Headers'));
    for (const header of decodeHeaders(model, i)) {
      const table = element('table', '', element('caption', '', element('b', '', header.name), ` ${header.title}`));
      for (const field of header.fields) {
        const row = element('tr', '', element('th', '', field.name), element('td', 'mono', field.value));
        row.tabIndex = 0;
        const light = (on) => () => {
          for (let at = field.first; at <= field.last; ++at) dump.cells[at]?.classList.toggle('lit', on);
        };
        row.addEventListener('pointerenter', light(true));
        row.addEventListener('pointerleave', light(false));
        row.addEventListener('focus', light(true));
        row.addEventListener('blur', light(false));
        table.append(row);
      }
      box.append(table);
    }
    const said = model.connectionTexts[i];
    if (said) box.append(element('h3', '', 'Message'), element('p', 'mono message', said));
    box.append(element('h3', '', `Bytes (${bytes.length})`), dump.box);
    return box;
  }

  dump(bytes) {
    const cells = [];
    const box = element('div', 'dump mono');
    for (let at = 0; at < bytes.length; at += 8) {
      const line = element('div', 'dump-line', element('span', 'offset', at.toString(16).padStart(2, '0')));
      for (const byte of bytes.subarray(at, at + 8)) {
        const cell = element('span', 'byte', byte.toString(16).padStart(2, '0'));
        cells.push(cell);
        line.append(cell);
      }
      box.append(line);
    }
    return { box, cells };
  }
}
