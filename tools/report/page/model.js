// Events and requests as typed arrays; what belongs to which conversation; what went wrong.

const Kind = { postSend: 0, postReceive: 1, packet: 2, retry: 3, completion: 4, state: 5 };
const Flag = {
  again: 1, lost: 2, duplicate: 4, dropped: 8, ackRequest: 16, response: 32, connection: 64,
  nak: 128, rnr: 256, oneSided: 512, ignored: 1024, notTaken: 2048,
};
const TROUBLE = Flag.again | Flag.lost | Flag.duplicate | Flag.dropped | Flag.notTaken | Flag.nak | Flag.rnr;

class Model {
  constructor(columns) {
    const head = columns.head;
    Object.assign(this, {
      wall: head.wall, sources: head.sources, conversations: head.conversations,
      remarks: head.remarks, texts: head.texts, connectionTexts: head.connection,
      layout: new Map(head.layout.map((h) => [h.name, h])), opcodes: head.opcodes,
      rules: head.rules, length: head.events,
    });
    this.readEvents(columns, head.events);
    this.readHeaders(columns, head.events);
    this.readRequests(columns, head.requests);
    this.sortByConversation();
    this.end = 0;
    for (let i = 0; i < this.length; ++i) {
      this.end = Math.max(this.end, this.time[i], this.arrived[i] || 0);
    }
  }

  readEvents(columns, n) {
    const kinds = columns.bytes('kind');
    this.kind = kinds.map((v) => v & 127);
    this.right = kinds.map((v) => v >> 7);
    this.flags = columns.numbers('flags', new Uint16Array(n));
    this.conversation = columns.sums('conversation', new Uint32Array(n));
    this.time = columns.sums('time', new Float64Array(n));
    this.arrived = columns.optional('transit', new Float64Array(n), NaN);
    for (let i = 0; i < n; ++i) this.arrived[i] += this.time[i];
    this.request = new Int32Array(n);
    let last = 0;
    columns.each('request', (i, v) => { this.request[i] = v === 0 ? -1 : (last += unzigzag(v - 1)); });
    this.opcode = columns.bytes('opcode');
    this.psn = columns.sums('psn', new Uint32Array(n));
    this.bytes = columns.numbers('bytes', new Uint32Array(n));
    this.what = columns.numbers('what', new Uint32Array(n));
    this.note = columns.numbers('note', new Uint32Array(n));
    this.rule = columns.bytes('rule');
    // Of each text, if it says that something is wrong.
    this.isBadStatus = Uint8Array.from(this.texts, (t) => (t === 'SUCCESS' ? 0 : 1));
    this.isBadState = Uint8Array.from(this.texts, (t) => (/(ERR|SQE)$/.test(t) ? 1 : 0));
  }

  readHeaders(columns, n) {
    this.headerAt = new Uint32Array(n + 1);
    let at = 0;
    columns.each('header_length', (i, v) => { this.headerAt[i + 1] = at += v; });
    const bytes = this.headers = columns.bytes('headers').slice();
    const before = new Int32Array(2 * this.conversations.length).fill(-1);
    for (let i = 0; i < n; ++i) {
      const start = this.headerAt[i];
      const size = this.headerAt[i + 1] - start;
      if (size === 0) continue;
      const end = 2 * this.conversation[i] + this.right[i];
      const other = before[end];
      if (other >= 0) {
        const from = this.headerAt[other];
        const common = Math.min(size, this.headerAt[other + 1] - from);
        for (let k = 0; k < common; ++k) bytes[start + k] += bytes[from + k];
      }
      before[end] = i;
    }
  }

  readRequests(columns, n) {
    const times = (name) => columns.optional(`request_${name}`, new Float64Array(n), NaN);
    const places = (name) => columns.numbers(`request_${name}`, new Uint32Array(n));
    this.requests = {
      length: n, end: places('end'), wrId: places('wr_id'), op: places('op'),
      bytes: columns.numbers('request_bytes', new Float64Array(n)),
      posted: times('posted'), firstSent: times('first_sent'), lastSent: times('last_sent'),
      completed: times('completed'), status: places('status'),
      failed: columns.bytes('request_failed'),
      packets: places('packets'), again: places('again'),
      waiting: columns.signed('request_waiting', new Float64Array(n)),
      wire: columns.signed('request_on_the_wire', new Float64Array(n)),
      repeating: columns.signed('request_repeating', new Float64Array(n)),
    };
    this.requestEvent = null;
  }

  /** Events of conversation c are order[start[c]] … order[start[c + 1] - 1], in the order of time. */
  sortByConversation() {
    const count = this.conversations.length;
    this.start = new Uint32Array(count + 1);
    this.packets = new Uint32Array(count);
    this.troubles = new Uint32Array(count);
    for (let i = 0; i < this.length; ++i) {
      const c = this.conversation[i];
      ++this.start[c + 1];
      if (this.kind[i] === Kind.packet) ++this.packets[c];
      if (this.isTrouble(i)) ++this.troubles[c];
    }
    for (let c = 0; c < count; ++c) this.start[c + 1] += this.start[c];
    const next = this.start.slice();
    this.order = new Uint32Array(this.length);
    for (let i = 0; i < this.length; ++i) this.order[next[this.conversation[i]]++] = i;
  }

  eventsOf(c) { return this.order.subarray(this.start[c], this.start[c + 1]); }

  isTrouble(i) {
    switch (this.kind[i]) {
      case Kind.packet: return (this.flags[i] & TROUBLE) !== 0;
      case Kind.retry: return true;
      case Kind.completion: return this.isBadStatus[this.what[i]] === 1;
      case Kind.state: return this.isBadState[this.what[i]] === 1;
      default: return false;
    }
  }

  isTroubledRequest(r) {
    return r >= 0 && (this.requests.again[r] > 0 || this.requests.failed[r] === 1);
  }

  /** What the filter "only errors" leaves: what went wrong, and the ends of its requests. */
  errorsOf(c) {
    return this.eventsOf(c).filter((i) => this.isTrouble(i) ||
      (this.kind[i] !== Kind.packet && this.isTroubledRequest(this.request[i])));
  }

  text(place) { return this.texts[place]; }
  headerBytes(i) { return this.headers.subarray(this.headerAt[i], this.headerAt[i + 1]); }

  /** An event that stands for the request: its post, or the first that belongs to it. */
  eventOfRequest(r) {
    if (!this.requestEvent) {
      this.requestEvent = new Int32Array(this.requests.length).fill(-1);
      for (let i = this.length - 1; i >= 0; --i) {
        if (this.request[i] >= 0) this.requestEvent[this.request[i]] = i;
      }
    }
    return this.requestEvent[r];
  }

  durationOf(r) {
    const q = this.requests;
    const end = Number.isNaN(q.completed[r]) ? q.lastSent[r] : q.completed[r];
    return end - q.posted[r];
  }

  totals() {
    const t = { packets: 0, bytes: 0, again: 0, againBytes: 0, lost: 0, duplicates: 0, notTaken: 0, rnr: 0,
      naks: new Map(), nak: 0, drops: new Map(), dropped: 0, retries: new Map(), retried: 0,
      repeating: 0, repeated: 0, failed: 0 };
    const count = (map, place) => map.set(place, (map.get(place) || 0) + 1);
    for (let i = 0; i < this.length; ++i) {
      if (this.kind[i] === Kind.retry) { ++t.retried; count(t.retries, this.what[i]); }
      if (this.kind[i] !== Kind.packet) continue;
      const f = this.flags[i];
      ++t.packets;
      t.bytes += this.bytes[i];
      if (f & Flag.again) { ++t.again; t.againBytes += this.bytes[i]; }
      if (f & Flag.lost) ++t.lost;
      if (f & Flag.duplicate) ++t.duplicates;
      if (f & Flag.notTaken) ++t.notTaken;
      if (f & Flag.rnr) ++t.rnr;
      if (f & Flag.nak) { ++t.nak; count(t.naks, this.what[i]); }
      if (f & Flag.dropped) { ++t.dropped; count(t.drops, this.note[i]); }
    }
    for (let r = 0; r < this.requests.length; ++r) {
      if (this.requests.repeating[r] > 0) { ++t.repeated; t.repeating += this.requests.repeating[r]; }
      t.failed += this.requests.failed[r];
    }
    return t;
  }
}

/** The first place in `list` (events in the order of time) whose time is not before t. */
function placeOfTime(model, list, t) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (model.time[list[middle]] < t) low = middle + 1; else high = middle;
  }
  return low;
}
