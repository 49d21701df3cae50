// What an event is called, on the ladder and beside it.

/** How a packet is drawn: its colour's name, its dashes, its width. */
const STYLES = {
  request: { color: 'request', dash: [], width: 1.6 },
  response: { color: 'response', dash: [], width: 1.2 },
  connection: { color: 'connection', dash: [9, 3, 2, 3], width: 1.4 },
  again: { color: 'again', dash: [7, 4], width: 2.2 },
  rnr: { color: 'rnr', dash: [2, 3], width: 1.8 },
  nak: { color: 'bad', dash: [], width: 1.8 },
  ignored: { color: 'faint', dash: [], width: 1 },
};

function styleOf(model, i) {
  const f = model.flags[i];
  if (f & Flag.rnr) return STYLES.rnr;
  if (f & Flag.nak) return STYLES.nak;
  if (f & Flag.ignored) return STYLES.ignored;
  if (f & Flag.again) return STYLES.again;
  if (f & Flag.connection) return STYLES.connection;
  return f & Flag.response ? STYLES.response : STYLES.request;
}

const FATES = [[Flag.again, 'sent again'], [Flag.lost, 'lost'], [Flag.dropped, 'dropped'],
  [Flag.notTaken, 'not taken'], [Flag.ignored, 'ignored'], [Flag.duplicate, 'duplicate']];
const DRAWN = Flag.again | Flag.lost;  // the ladder shows it by a sign, or by an arrow that breaks

/** What became of a packet, in words. */
const fatesOf = (flags) => FATES.filter(([flag]) => flags & flag).map(([, word]) => word);

/** A reason without the name of its counter: "wrong Q_Key (drop_qkey)". */
const withoutCounter = (text) => text.replace(/ \(\w+\)$/, '');

/** The signs that stand in front of a packet's label. */
function signsOf(flags) {
  return (flags & Flag.again ? '↻ ' : '') + (flags & Flag.nak ? '▲ ' : flags & Flag.rnr ? '◆ ' : '');
}

function packetLabel(model, i) {
  const f = model.flags[i];
  const isMessage = (f & Flag.connection) !== 0;
  return [model.text(model.what[i]), isMessage ? '' : `PSN ${model.psn[i]}`, ...fatesOf(f & ~DRAWN),
    f & Flag.dropped ? withoutCounter(model.text(model.note[i])) : '',
    model.bytes[i] > 0 && !isMessage ? sizeText(model.bytes[i]) : ''].filter(Boolean).join(' · ');
}

/** A wr_id that a program makes of bits, or of a pointer, in hexadecimal. */
function wrText(id) {
  return /^\d+$/.test(id) && BigInt(id) > 0xffffffffn ? `0x${BigInt(id).toString(16)}` : id;
}

/** With ✓ or ✗ if there was a completion. */
function requestStatus(model, r) {
  const q = model.requests;
  const sign = Number.isNaN(q.completed[r]) ? '' : q.failed[r] ? '✗ ' : '✓ ';
  return sign + model.text(q.status[r]);
}

/** [sign, colour's name, text] of what happens at one end. */
function endLabel(model, i) {
  const what = model.text(model.what[i]);
  const op = what.replace(/^RDMA_/, '').replaceAll('_', ' ');
  const wr = model.text(model.note[i]);
  const request = [model.bytes[i] > 0 ? sizeText(model.bytes[i]) : '', wr && `wr ${wrText(wr)}`];
  const join = (...parts) => parts.filter(Boolean).join(' · ');
  switch (model.kind[i]) {
    case Kind.postSend: return ['●', 'ink', join(`post ${op}`, ...request)];
    case Kind.postReceive: return ['○', 'muted', join('post receive', ...request)];
    case Kind.retry: return ['↻', 'again', join(what, `PSN ${model.psn[i]}`)];
    case Kind.completion: {
      const bad = model.isTrouble(i);
      return [bad ? '✗' : '✓', bad ? 'bad' : 'good', join(bad ? what : 'completion', ...request)];
    }
    default: return ['◇', model.isTrouble(i) ? 'bad' : 'muted', what];
  }
}

/** One sentence, for those who listen. */
function spoken(model, i) {
  const side = (right) => (right ? 'right' : 'left');
  const from = model.right[i];
  const at = `${moment(model.time[i], 100)}, ${side(from)}`;
  if (model.kind[i] !== Kind.packet) return `${at}: ${endLabel(model, i)[2]}`;
  return `${at} to ${side(1 - from)}: ${[packetLabel(model, i), ...fatesOf(model.flags[i] & DRAWN)].join(' · ')}`;
}

/** "rping 4711 · QP 0x0001a2"; empty for the other end of a shared receive queue: there is none. */
const endTitle = (end) => [end.program, end.name].filter(Boolean).join(' · ');
