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

function tile(value, name, more, kind) {
  const box = element('div', `tile ${kind || ''}`, element('b', '', value), element('span', 'tile-name', name),
    more ? element('span', 'quiet', more) : null);
  box.title = [value, name, more].filter(Boolean).join(' ');
  return box;
}

function tileParts(model) {
  const t = model.totals();
  const names = (map) => [...map].sort((a, b) => b[1] - a[1])
    .map(([place, n]) => `${model.text(place).replace(/^drop_/, '').replaceAll('_', ' ') || 'unknown'} ${countText(n)}`).join(', ');
  const share = t.packets ? `${(100 * t.again / t.packets).toFixed(t.again / t.packets < 0.01 ? 2 : 1)} % of packets` : '';
  const parts = [
    tile(countText(t.packets), t.packets === 1 ? 'packet' : 'packets', `${sizeText(t.bytes)} of payload`),
    tile(countText(model.requests.length), model.requests.length === 1 ? 'request' : 'requests',
      `${plural(model.conversations.length, 'conversation')}, ${duration(model.end)}`),
  ];
  if (t.bad) parts.push(tile(countText(t.bad), t.bad === 1 ? 'request failed' : 'requests failed', '', 'bad'));
  const waste = [
    t.again && tile(countText(t.again), 'sent twice', `${sizeText(t.againBytes)}, ${share}`, 'again'),
    t.repeating && tile(duration(t.repeating), 'repeating', `in ${plural(t.repeated, 'request')}`, 'again'),
    t.retried && tile(countText(t.retried), t.retried === 1 ? 'retry' : 'retries', names(t.retries), 'again'),
    t.lost && tile(countText(t.lost), 'lost', 'on the way', 'bad'),
    t.dropped && tile(countText(t.dropped), 'dropped', names(t.drops), 'bad'),
    t.duplicates && tile(countText(t.duplicates), t.duplicates === 1 ? 'duplicate' : 'duplicates', 'had arrived already', 'again'),
    t.rnr && tile(countText(t.rnr), 'not ready', 'RNR NAKs', 'rnr'),
    t.nak && tile(countText(t.nak), t.nak === 1 ? 'NAK' : 'NAKs', '', 'bad'),
  ].filter(Boolean);
  if (!waste.length) waste.push(tile('✓', 'nothing was wasted', 'no loss, no repetition', 'good'));
  return [...parts, element('span', 'waste-name', 'what was wasted'), ...waste];
}
