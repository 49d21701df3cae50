'use strict';

// Which measurements make which plot.

const USUAL_DEPTH = 64;

function isStream(m) {
  return m.test === 'bandwidth' && m.loss_percent === 0 && m.queue_pairs === 1 &&
    (m.transport !== 'rdma' || m.depth === USUAL_DEPTH) && m.completion === 'polling';
}

function pointOf(m, figure, x, scale, unit) {
  const { median, low, high, rounds } = m.figures[figure];
  const interval = rounds.length > 1 ? `\n${number(low * scale)} to ${number(high * scale)}` : '';
  return { x, y: median * scale, low: low * scale, high: high * scale, id: m.id, figure,
           text: `${m.title}, ${sizeText(m.size)}\n${number(median * scale)} ${unit}${interval}` };
}

/// Measurements of one name make a line, in the order of x.
function seriesOf(measurements, figure, xOf, { nameOf = (m) => m.title, scale = 1, unit = '' } = {}) {
  const lines = new Map();
  for (const m of measurements) {
    if (!m.figures[figure] || !(m.figures[figure].median > 0)) continue;
    const name = nameOf(m);
    if (!lines.has(name)) lines.set(name, { name, color: colorOf(m), dash: dashOf(m), ticks: m.transport === 'rdma',
                                          points: [] });
    lines.get(name).points.push(pointOf(m, figure, xOf(m), scale, unit));
  }
  for (const line of lines.values()) line.points.sort((a, b) => a.x - b.x);
  return [...lines.values()];
}

function extentOf(series, pick) {
  const values = series.flatMap((one) => one.points.flatMap(pick)).filter((v) => v > 0);
  return [Math.min(...values), Math.max(...values)];
}

function yLog(series, box) {
  const [low, high] = extentOf(series, (p) => [p.low, p.high, p.y]);
  const [from, to] = [low / 1.2, high * 1.2];
  return { y: logScale(from, to, box.bottom, box.top), yTicks: decades(from, to) };
}

function yLinear(series, box) {
  const high = 1.05 * Math.max(...series.flatMap((one) => one.points.flatMap((p) => [p.high, p.y])));
  return { y: linearScale(0, high, box.bottom, box.top), yTicks: rounds(high) };
}

/// Every value at which RDMA is measured has a tick. `make`: of the scale.
function xOf(series, box, text, make = logScale) {
  const valuesOf = (some) => [...new Set(some.flatMap((one) => one.points.map((p) => p.x)))]
    .sort((a, b) => a - b);
  const all = valuesOf(series);
  const own = valuesOf(series.filter((one) => one.ticks));
  const pad = 8;
  return { x: make(all[0], all[all.length - 1], box.left + pad, box.right - pad),
           xTicks: (own.length ? own : all).map((value) => [value, text(value)]) };
}

function againstSize(figure, yName) {
  return (series, box) => ({ ...xOf(series, box, sizeText), ...yLog(series, box),
                             xName: 'size of a message', yName });
}

function addPlot(parent, options) {
  if (options.series.some((one) => one.points.length > 0)) return new Plot(parent, options);
  return null;
}

function addSizePlots(parent, all) {
  const streams = all.filter((m) => isStream(m) && (m.transport !== 'rdma' || m.service === 'RC'));
  addPlot(parent, {
    name: 'bandwidth', title: 'Bandwidth against size',
    text: 'Useful bytes. Dashed: what bare programs do without RDMA. Bars: intervals of confidence.',
    series: seriesOf(streams, 'gb_per_s', (m) => m.size, { unit: 'GB/s' }),
    axes: againstSize('gb_per_s', 'GB/s') });
  addPlot(parent, {
    name: 'cpu', title: 'CPU time against size',
    text: 'CPU seconds for each GB, at both ends together. Less is better.',
    series: seriesOf(streams, 'cpu_s_per_gb', (m) => m.size, { unit: 's/GB' }),
    axes: againstSize('cpu_s_per_gb', 's/GB') });
}

function cdfOf(m) {
  const total = m.histogram_ns.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  const points = [{ x: m.histogram_ns[0][0] / 1000, y: 0, id: m.id }];
  for (const [upper, count] of m.histogram_ns) {
    seen += count;
    points.push({ x: upper / 1000, y: seen / total, id: m.id });
  }
  return { name: m.title, color: colorOf(m), dash: dashOf(m), points, id: m.id };
}

function addLatencyPlot(parent, all) {
  const sizes = new Set(all.filter((m) => m.test === 'latency').map((m) => m.size));
  const size = sizes.has(64) ? 64 : [...sizes][0];
  const series = all.filter((m) => m.test === 'latency' && m.size === size && m.histogram_ns.length > 1)
    .map(cdfOf);
  const plot = addPlot(parent, {
    name: 'latency', title: `Latency, ${sizeText(size ?? 0)}`,
    text: 'The part of all messages that took at most so long, one way; of READ there and back.',
    series, dots: false,
    axes: (lines, box) => {
      const nines = 4;
      const [low, high] = extentOf(lines, (p) => [p.x]);
      return { x: logScale(low, high, box.left, box.right), xTicks: decades(low, high), xName: 'µs',
               y: ninesScale(box.bottom, box.top, nines), yName: 'of all',
               yTicks: [[0, '0'], [0.5, '50 %'], [0.9, '90 %'], [0.99, '99 %'], [0.999, '99.9 %'],
                        [0.9999, '99.99 %']] };
    } });
  return plot;
}

function addLossPlots(parent, all) {
  const base = (m) => m.transport === 'rdma' && m.operation === 'write' && m.service === 'RC' &&
    m.test === 'bandwidth' && m.queue_pairs === 1 && m.depth === USUAL_DEPTH && m.wire === 'auto' &&
    m.completion === 'polling';
  const sizes = new Set(all.filter((m) => m.loss_percent > 0).map((m) => m.size));
  const lossy = all.filter((m) => base(m) && sizes.has(m.size));
  const nameOf = (m) => `WRITE RC, ${sizeText(m.size)}`;
  const axes = (yName, y) => (series, box) => ({
    ...xOf(series, box, (v) => `${tickText(v)} %`, rootScale), ...y(series, box), yName,
    xName: 'packets lost on purpose' });
  if (sizes.size === 0) return;
  addPlot(parent, {
    name: 'goodput', title: 'Goodput against loss', text: 'Each useful byte counts once.',
    series: seriesOf(lossy, 'gb_per_s', (m) => m.loss_percent, { nameOf, unit: 'GB/s' }),
    axes: axes('GB/s', yLog) });
  addPlot(parent, {
    name: 'resends', title: 'Resends against loss',
    text: 'Packets that the sender sent again, of all that it sent.',
    series: seriesOf(lossy, 'resent_percent', (m) => m.loss_percent, { nameOf, unit: '%' }),
    axes: axes('%', yLinear) });
}

function addQueuePairPlots(parent, all) {
  const many = all.filter((m) => m.queue_pairs > 1 && m.test === 'bandwidth' && m.loss_percent === 0);
  const sizes = [...new Set(many.map((m) => m.size))].sort((a, b) => a - b);
  for (const size of sizes) {
    const small = size < 4096;
    const like = all.filter((m) => m.transport === 'rdma' && m.size === size && m.test === 'bandwidth' &&
      m.loss_percent === 0 && many.some((other) => other.size === size && other.operation === m.operation &&
        other.service === m.service && other.depth === m.depth && other.wire === m.wire &&
        other.completion === m.completion));
    const options = small ? { scale: 1e-6, unit: 'million/s' } : { unit: 'GB/s' };
    addPlot(parent, {
      name: `queue-pairs-${size}`, title: `Scaling with queue pairs, ${sizeText(size)}`,
      text: small ? 'Messages a second of all queue pairs together.' : 'Bandwidth of all queue pairs together.',
      series: seriesOf(like, small ? 'messages_per_s' : 'gb_per_s', (m) => m.queue_pairs,
        { ...options, nameOf: (m) => m.title.replace(/, \d+ queue pairs/, '') }),
      axes: (series, box) => ({ ...xOf(series, box, String), ...yLinear(series, box),
                                xName: 'queue pairs', yName: small ? '10⁶ messages/s' : 'GB/s' }) });
  }
}
