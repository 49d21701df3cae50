// Numbers as people read them, and elements whose text is never taken for HTML.

const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

/** 1234567 → "1.235 ms". */
function duration(ns) {
  if (!Number.isFinite(ns)) return '–';
  const size = Math.abs(ns);
  if (size < 1) return '0';
  const [scale, unit] = UNITS.find(([s]) => size >= s);
  const value = ns / scale;
  const digits = scale === 1 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
  return `${value.toFixed(digits)} ${unit}`;
}

/** A point in time, with digits enough to tell neighbours `step` apart. */
function moment(ns, step, most = 6) {
  if (!Number.isFinite(ns)) return '–';
  const size = Math.abs(ns);
  const [scale, unit] = size >= 1e9 ? UNITS[0] : size >= 1e6 ? UNITS[1] : UNITS[2];
  const wanted = Math.ceil(Math.log10(scale / Math.max(step, 1)));
  return `${(ns / scale).toFixed(Math.min(Math.max(wanted, 0), unit === 's' ? most : unit === 'ms' ? Math.max(most - 3, 3) : 3))} ${unit}`;
}

function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let i = -1;
  do { bytes /= 1024; ++i; } while (bytes >= 1024 && i < units.length - 1);
  return `${bytes.toFixed(Number.isInteger(bytes) || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2)} ${units[i]}`;
}

function rateText(bytesPerSecond) {
  const bits = bytesPerSecond * 8;
  const [scale, unit] = [[1e9, 'Gbit/s'], [1e6, 'Mbit/s'], [1e3, 'kbit/s'], [1, 'bit/s']]
    .find(([s]) => bits >= s) || [1, 'bit/s'];
  return `${(bits / scale).toFixed(bits / scale >= 100 ? 0 : 1)} ${unit}`;
}

/** 1, 2 or 5 times a power of ten: the first that is not less. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((f) => f * power).find((step) => step >= least);
}

const hex = (v, digits) => '0x' + v.toString(16).padStart(digits, '0');
const countText = (n) => n.toLocaleString('en-US').replaceAll(',', '\u202f');
const plural = (n, one, many) => `${countText(n)} ${n === 1 ? one : many || one + 's'}`;

/** element('b', 'name', 'text', child, …) */
function element(tag, name, ...children) {
  const e = document.createElement(tag);
  if (name) e.className = name;
  e.append(...children.filter((c) => c !== null && c !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

const byId = (id) => document.getElementById(id);
