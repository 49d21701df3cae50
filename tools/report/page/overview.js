// What was read, the totals, and what was wasted, in words.

const KEYS = [['↑ ↓', 'the event before, the next'], ['+ −', 'zoom'], ['0', 'show all'],
  ['Page ↑ ↓', 'scroll'], ['m', 'steps or time'], ['n', 'next error'], ['e', 'only errors'],
  ['/', 'search'], ['Enter', 'to the details'], ['Esc', 'back'], ['t', 'light or dark'], ['b', 'fold the panel below']];

function aboutParts(model) {
  const parts = [];
  for (const s of model.sources) {
    const clock = s.shifted ? `clock ${s.offset < 0 ? '−' : '+'}${duration(Math.abs(s.offset))}, found by matching packets` :
      s.offset ? `clock ${s.offset < 0 ? '−' : '+'}${duration(Math.abs(s.offset))}` : 'clock as recorded';
    parts.push(element('div', 'source', element('b', '', s.file), element('span', 'quiet', [s.host, clock].filter(Boolean).join(' · '))));
  }
  if (model.wall) {
    parts.push(element('div', 'source', element('b', '', 'Begins'),
      element('span', 'quiet', new Date(model.wall / 1e6).toISOString().replace('T', ' '))));
  }
  const programs = new Map();
  for (const c of model.conversations) {
    for (const end of [c.left, c.right]) {
      if (end.program) programs.set(end.program, (programs.get(end.program) || new Set()).add(end.qpn));
    }
  }
  const shown = [...programs].slice(0, 40);
  for (const [program, qps] of shown) {
    parts.push(element('div', 'source', element('b', '', program), element('span', 'quiet', plural(qps.size, 'queue pair'))));
  }
  if (programs.size > shown.length) parts.push(element('p', 'quiet', `and ${programs.size - shown.length} further processes`));
  for (const remark of model.remarks) parts.push(element('p', 'remark', remark));
  return parts;
}

function tile(value, name, more, kind = '') {
  const box = element('div', `tile ${kind}`, element('b', '', value), element('span', 'tile-name', name),
    more ? element('span', 'quiet', more) : null);
  box.title = [value, name, more].filter(Boolean).join(' ');
  return box;
}

/** "sequence NAK 36, timeout 2": texts by how many there are. */
function shares(model, counts) {
  return [...counts].sort((a, b) => b[1] - a[1])
    .map(([place, n]) => `${withoutCounter(model.text(place))} ${countText(n)}`).join(', ');
}

function tileParts(model) {
  const t = model.totals();
  const named = (n, one, many) => [countText(n), n === 1 ? one : many];
  const percent = t.packets ? 100 * t.again / t.packets : 0;
  const parts = [
    tile(...named(t.packets, 'packet', 'packets'), `${sizeText(t.bytes)} of payload`),
    tile(...named(model.requests.length, 'request', 'requests'),
      `${plural(model.conversations.length, 'conversation')}, ${duration(model.end)}`),
  ];
  if (t.failed) parts.push(tile(...named(t.failed, 'request failed', 'requests failed'), '', 'bad'));
  const waste = [
    t.again && tile(countText(t.again), 'sent again',
      `${sizeText(t.againBytes)}, ${percent.toFixed(percent < 1 ? 2 : 1)} % of packets`, 'again'),
    t.repeating && tile(duration(t.repeating), 'repeating', `in ${plural(t.repeated, 'request')}`, 'again'),
    t.retried && tile(...named(t.retried, 'retry', 'retries'), shares(model, t.retries), 'again'),
    t.lost && tile(countText(t.lost), 'lost', 'on the way', 'bad'),
    t.dropped && tile(countText(t.dropped), 'dropped', shares(model, t.drops), 'bad'),
    t.notTaken && tile(countText(t.notTaken), 'not taken', 'one before was missing', 'bad'),
    t.duplicates && tile(...named(t.duplicates, 'duplicate', 'duplicates'), 'had arrived already', 'again'),
    t.rnr && tile(...named(t.rnr, 'RNR NAK', 'RNR NAKs'), 'receiver not ready', 'rnr'),
    t.nak && tile(...named(t.nak, 'NAK', 'NAKs'), shares(model, t.naks).replaceAll('NAK, ', ''), 'bad'),
  ].filter(Boolean);
  if (!waste.length) waste.push(tile('✓', 'nothing was wasted', 'no loss, no repetition', 'good'));
  return [...parts, element('span', 'waste-name', 'what was wasted'), ...waste];
}
