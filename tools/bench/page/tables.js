'use strict';

// The figures in words: tiles on top, tables below.

/// Ratios of the rounds that both have: {median, low, high, rounds}. The same order statistics as
/// in tools/bench/statistics.cc.
function ratioOf(a, b, figure) {
  const ratios = [];
  const ours = a.figures[figure]?.rounds ?? [];
  const theirs = b.figures[figure]?.rounds ?? [];
  for (let i = 0; i < Math.min(ours.length, theirs.length); i += 1) {
    if (ours[i] !== null && theirs[i] > 0) ratios.push(ours[i] / theirs[i]);
  }
  if (ratios.length === 0) return null;
  ratios.sort((x, y) => x - y);
  const n = ratios.length;
  let k = 1;
  while (2 * (k + 1) <= n && coverageOf(n, k + 1) >= 0.95) k += 1;
  const middle = Math.floor(n / 2);
  const median = n % 2 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
  return { median, low: ratios[k - 1], high: ratios[n - k], rounds: n };
}

function coverageOf(n, k) {
  let term = 0.5 ** n;
  let below = 0;
  for (let i = 0; i < k; i += 1) {
    below += term;
    term *= (n - i) / (i + 1);
  }
  return Math.max(0, 1 - 2 * below);
}

const LEAST_ROUNDS = 5;

/// [words, class] of RDMA beside TCP.
function verdictOf(ratio, lessIsBetter) {
  if (!ratio) return ['', ''];
  const text = `${number(ratio.median)} × TCP`;
  if (ratio.rounds < LEAST_ROUNDS) return [`${text}, too few rounds to conclude`, 'unclear'];
  if (ratio.low <= 1 && ratio.high >= 1) return ['≈ TCP: the noise is larger', 'unclear'];
  return [text, (ratio.median > 1) !== lessIsBetter ? 'good' : 'bad'];
}

function tcpBeside(all, m) {
  return all.find((t) => t.transport === 'tcp' && t.test === m.test && t.size === m.size &&
    (t.test === 'bandwidth' || t.completion === m.completion));
}

function addTile(parent, all, m, figure, scale, unit, lessIsBetter) {
  if (!m?.figures[figure]) return;
  const tcp = tcpBeside(all, m);
  const [words, verdict] = verdictOf(tcp && ratioOf(m, tcp, figure), lessIsBetter);
  const tile = element(parent, 'div', { class: 'tile', 'data-id': m.id, 'data-figure': figure });
  element(tile, 'small', {}, `${m.title}, ${sizeText(m.size)}`);
  const value = element(tile, 'b', {}, `${number(m.figures[figure].median * scale)} `);
  element(value, 'span', {}, unit);
  element(tile, 'span', { class: `verdict ${verdict}` }, words);
}

function addTiles(parent, all) {
  const plain = (m) => m.transport === 'rdma' && m.service === 'RC' && m.queue_pairs === 1 &&
    m.loss_percent === 0 && m.wire === 'auto' && m.completion === 'polling';
  const streams = all.filter((m) => plain(m) && isStream(m) && m.operation === 'write');
  const large = streams.find((m) => m.size === 65536) ?? streams[streams.length - 1];
  const small = streams.find((m) => m.size === 64);
  const latency = all.find((m) => plain(m) && m.test === 'latency' && m.operation === 'send') ??
    all.find((m) => plain(m) && m.test === 'latency');
  addTile(parent, all, large, 'gb_per_s', 1, 'GB/s', false);
  addTile(parent, all, large, 'cpu_s_per_gb', 1, 'CPU s/GB', true);
  addTile(parent, all, latency, 'p50_us', 1, 'µs', true);
  addTile(parent, all, small, 'messages_per_s', 1e-6, 'million/s', false);
}

const STREAM = [['GB/s', 'gb_per_s', 1], ['10⁶ messages/s', 'messages_per_s', 1e-6],
                ['CPU s/GB, sender', 'sender_cpu_s_per_gb', 1], ['receiver', 'receiver_cpu_s_per_gb', 1],
                ['resent, %', 'resent_percent', 1], ['lost, %', 'lost_percent', 1]];
const LATENCY = [['p50, µs', 'p50_us', 1], ['p99, µs', 'p99_us', 1], ['p99.9, µs', 'p999_us', 1],
                 ['max, µs', 'max_us', 1], ['mean, µs', 'mean_us', 1]];

function addTable(parent, title, measurements, columns) {
  const used = columns.filter(([, figure]) => measurements.some((m) => m.figures[figure]));
  if (measurements.length === 0) return;
  const details = element(parent, 'details');
  element(details, 'summary', {}, `${title} (${measurements.length})`);
  const table = element(element(details, 'div', { class: 'scroll' }), 'table');
  const head = element(element(table, 'thead'), 'tr');
  for (const text of ['', 'size', 'depth', ...used.map(([name]) => name)]) element(head, 'th', {}, text);
  const body = element(table, 'tbody');
  for (const m of measurements) {
    const row = element(body, 'tr', { 'data-id': m.id });
    element(row, 'td', {}, m.title);
    element(row, 'td', {}, sizeText(m.size));
    element(row, 'td', {}, m.depth);
    for (const [, figure, scale] of used) {
      const cell = element(row, 'td');
      const found = m.figures[figure];
      if (!found) continue;
      cell.append(number(found.median * scale));
      if (found.rounds.length > 1) {
        element(cell, 'small', {}, `${number(found.low * scale)}–${number(found.high * scale)}`);
      }
    }
  }
}

function addTables(parent, all) {
  addTable(parent, 'All streams', all.filter((m) => m.test === 'bandwidth'), STREAM);
  addTable(parent, 'All latencies', all.filter((m) => m.test === 'latency'), LATENCY);
}
