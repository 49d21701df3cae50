// What an event is called, on the ladder and beside it.

const shortOpcode = (name) => name.replace(/^(RC|UC|UD|XRC) /, '');

/** How a packet is drawn: its colour's name, its dashes, its sign. */
const STYLES = {
  request: { color: 'request', dash: [], width: 1.6 },
  response: { color: 'response', dash: [], width: 1.2 },
  connection: { color: 'connection', dash: [9, 3, 2, 3], width: 1.4 },
  again: { color: 'again', dash: [7, 4], width: 2.2 },
  rnr: { color: 'rnr', dash: [2, 3], width: 1.8 },
  nak: { color: 'bad', dash: [], width: 1.8 },
};

function styleOf(model, i) {
  const f = model.flags[i];
  if (f & Flag.rnr) return STYLES.rnr;
  if (f & Flag.nak) return STYLES.nak;
  if (f & Flag.again) return STYLES.again;
  if (f & Flag.connection) return STYLES.connection;
  return f & Flag.response ? STYLES.response : STYLES.request;
}

const AGAIN = 'sent again';

function marksOf(model, i) {
  const f = model.flags[i];
  const note = model.text(model.note[i]);
  const marks = [];
  if (f & Flag.again) marks.push(AGAIN);
  if (f & Flag.lost) marks.push('lost');
  if (f & Flag.dropped) marks.push(`dropped${note ? ': ' + note : ''}`);
  if (f & Flag.ignored) marks.push(`ignored: ${note}`);
  if (f & Flag.duplicate) marks.push('duplicate');
  return marks;
}

function packetLabel(model, i) {
  const f = model.flags[i];
  const parts = [shortOpcode(model.text(model.what[i]))];
  if (!(f & Flag.connection)) parts.push(`PSN ${model.psn[i]}`);
  parts.push(...marksOf(model, i).filter((mark) => mark !== AGAIN));  // ↻ says it
  if (model.bytes[i] > 0 && !(f & Flag.connection)) parts.push(sizeText(model.bytes[i]));
  const syndrome = syndromeOf(model, i);
  if (syndrome) parts[0] = syndrome;
  return parts.join(' · ');
}

/** "NAK: PSN sequence error", of an acknowledgement that says no. */
function syndromeOf(model, i) {
  const f = model.flags[i];
  if (!(f & (Flag.nak | Flag.rnr))) return '';
  const bytes = model.headerBytes(i);
  if (f & Flag.rnr) return 'RNR NAK: receiver not ready';
  return bytes.length > 12 ? `NAK: ${NAKS[bytes[12] & 31] || 'reserved'}` : 'NAK';
}

/** A wr_id that a program makes of bits, or of a pointer, in hexadecimal. */
function wrText(id) {
  return /^\d+$/.test(id) && BigInt(id) > 0xffffffffn ? `0x${BigInt(id).toString(16)}` : id;
}

function requestName(model, r) {
  return r < 0 ? '' : `wr ${wrText(model.text(model.requests.wrId[r]))}`;
}

/** With ✓ or ✗ if there was a completion. */
function requestStatus(model, r) {
  const q = model.requests;
  const sign = Number.isNaN(q.completed[r]) ? '' : q.failed[r] ? '✗ ' : '✓ ';
  return sign + model.text(q.status[r]);
}

const SIGNS = { [Kind.postSend]: '●', [Kind.postReceive]: '○', [Kind.retry]: '↻', [Kind.state]: '◇' };

/** [sign, colour's name, text] of what happens at one end. */
function endLabel(model, i) {
  const what = model.text(model.what[i]);
  const op = what.replace(/^RDMA_/, '').replaceAll('_', ' ');
  const of = requestName(model, model.request[i]) || wrText(model.text(model.note[i]));
  const size = model.bytes[i] > 0 ? sizeText(model.bytes[i]) : '';
  const join = (...parts) => parts.filter(Boolean).join(' · ');
  switch (model.kind[i]) {
    case Kind.postSend: return ['●', 'ink', join(`post ${op}`, of, size)];
    case Kind.postReceive: return ['○', 'muted', join('post receive', of, size)];
    case Kind.retry: return ['↻', 'again', `${what} · PSN ${model.psn[i]}`];
    case Kind.completion: {
      const bad = model.isTrouble(i);
      return [bad ? '✗' : '✓', bad ? 'bad' : 'good', join(bad ? what : 'completion', of, size)];
    }
    default: return ['◇', model.isTrouble(i) ? 'bad' : 'muted', what];
  }
}

function eventLabel(model, i) {
  return model.kind[i] === Kind.packet ? packetLabel(model, i) : endLabel(model, i)[2];
}

/** One sentence, for those who listen. */
function spoken(model, i) {
  const side = (right) => (right ? 'right' : 'left');
  const from = model.right[i];
  const way = model.kind[i] === Kind.packet ? `${side(from)} to ${side(1 - from)}` : side(from);
  return `${moment(model.time[i], 100)}, ${way}: ${eventLabel(model, i)}`;
}

/** Empty for the other end of a shared receive queue: there is none. */
function endTitle(end) {
  return end.name ? `${end.program || 'not traced'} · ${end.name}` : '';
}
