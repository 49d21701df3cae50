'use strict';

// From values to pixels. Each scale has at(value) and ticks: [value, text].

function logScale(low, high, from, to) {
  const a = Math.log(low);
  const span = Math.log(high) - a || 1;
  return { at: (value) => from + (to - from) * (Math.log(Math.max(value, low)) - a) / span };
}

function linearScale(low, high, from, to) {
  return { at: (value) => from + (to - from) * (value - low) / (high - low || 1) };
}

/// Between linear and logarithmic, and with a zero.
function rootScale(low, high, from, to) {
  const a = Math.sqrt(low);
  const span = Math.sqrt(high) - a || 1;
  return { at: (value) => from + (to - from) * (Math.sqrt(value) - a) / span };
}

/// Powers of ten, and 2 and 5 times these if there are few.
function decades(low, high) {
  const ticks = [];
  const few = Math.log10(high / low) < 2.5;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of few ? [1, 2, 5] : [1]) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push([value, tickText(value)]);
    }
  }
  return ticks;
}

/// About five round numbers from zero on.
function rounds(high) {
  const rough = high / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let value = 0; value <= high * 1.001; value += step) ticks.push([value, tickText(value)]);
  return ticks;
}

/// The part that is slower, 1 - q, on a logarithmic scale: 90 %, 99 % and 99.9 % are equally far
/// from each other.
function ninesScale(from, to, nines) {
  const most = 10 ** -nines;
  return { at: (q) => from + (to - from) * -Math.log10(Math.max(1 - q, most)) / nines };
}
