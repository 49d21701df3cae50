'use strict';

// How numbers read, and which colour something has.

const SIZE_UNITS = ['B', 'KiB', 'MiB', 'GiB'];

function sizeText(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < SIZE_UNITS.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${Number(bytes.toPrecision(4))} ${SIZE_UNITS[unit]}`;
}

function number(value) {
  if (value >= 1000) return value.toFixed(0);
  if (value >= 100) return value.toFixed(1);
  if (value >= 1) return value.toFixed(2);
  return value >= 0.001 || value === 0 ? value.toFixed(3) : value.toExponential(1);
}

/// "0.1", "10", "2000": of an axis, without needless digits.
function tickText(value) {
  return String(Number(value.toPrecision(3)));
}

function colorOf(m) {
  if (m.transport === 'rdma') return `var(--${m.operation})`;
  const own = ['tcp', 'udp', 'memcpy', 'ring', 'pull'];
  return own.includes(m.transport) ? `var(--${m.transport})` : 'var(--other)';
}

/// Lines of one colour differ by their dashes. Bare programs are dashed, too.
function dashOf(m) {
  if (!['rdma', 'tcp'].includes(m.transport)) return '5 4';
  if (m.completion === 'events') return '9 3 2 3';
  if (m.wire === 'udp') return '12 3';
  return { UC: '6 3', UD: '2 3' }[m.service] ?? '';
}
