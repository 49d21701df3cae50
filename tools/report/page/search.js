// Which event is meant: by wr_id, PSN, opcode, status, or what was noted of it.

class Search {
  constructor(model) {
    this.model = model;
  }

  /** A test of an event. "psn 5", "wr 7" are told apart; a plain number is either. */
  matcher(query) {
    const { model } = this;
    const text = query.trim().toLowerCase();
    if (!text) return null;
    const number = /^(?:(psn|wr|wr_id)\s*[:=]?\s*)?(0x[0-9a-f]+|\d+)$/.exec(text);
    if (number) return this.numberMatcher(number[1], number[2]);
    const named = Uint8Array.from(model.texts, (t) => (t.toLowerCase().includes(text) ? 1 : 0));
    return (i) => named[model.what[i]] === 1 || named[model.note[i]] === 1 ||
      (model.request[i] >= 0 && model.kind[i] !== Kind.packet &&
        named[model.requests.op[model.request[i]]] === 1);
  }

  numberMatcher(field, digits) {
    const { model } = this;
    const value = Number(digits);
    const place = model.texts.indexOf(String(BigInt(digits)));
    const isPsn = (i) => field !== 'wr' && field !== 'wr_id' && model.kind[i] === Kind.packet &&
      !(model.flags[i] & Flag.connection) && model.psn[i] === value;
    const isRequest = (i) => field !== 'psn' && place >= 0 && model.kind[i] !== Kind.packet &&
      ((model.request[i] >= 0 && model.requests.wrId[model.request[i]] === place) || model.note[i] === place);
    return (i) => isPsn(i) || isRequest(i);
  }

  /** The next event in this conversation that matches, then in others; -1: none. Goes round. */
  next(matches, conversation, after) {
    const { model } = this;
    const count = model.conversations.length;
    const start = model.eventsOf(conversation).indexOf(after);
    for (let n = 0; n <= count; ++n) {
      const list = model.eventsOf((conversation + n) % count);
      const [from, to] = n === 0 ? [start + 1, list.length] : n === count ? [0, start + 1] : [0, list.length];
      for (let k = from; k < to; ++k) if (matches(list[k])) return list[k];
    }
    return -1;
  }
}
