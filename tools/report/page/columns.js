'use strict';
// The model's bytes as they stand in the page: base64 of LZ4 of columns (see page_columns.h).

window.verbenaErrors = [];
window.addEventListener('error', (e) => window.verbenaErrors.push(`${e.message} (${e.lineno})`));
window.addEventListener('unhandledrejection', (e) => window.verbenaErrors.push(String(e.reason)));

function bytesOfBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** The block format of LZ4. */
function decompress(from, size) {
  const out = new Uint8Array(size);
  let at = 0;
  let to = 0;
  const length = (nibble) => {
    if (nibble < 15) return nibble;
    let byte;
    do {
      byte = from[at++];
      nibble += byte;
    } while (byte === 255);
    return nibble;
  };
  while (at < from.length) {
    const token = from[at++];
    const literals = length(token >> 4);
    out.set(from.subarray(at, at + literals), to);
    at += literals;
    to += literals;
    if (at >= from.length) break;
    const distance = from[at] | (from[at + 1] << 8);
    at += 2;
    const end = to + length(token & 15) + 4;
    if (distance === 0 || distance > to || end > size) throw new Error('the page is damaged');
    for (; to < end; ++to) out[to] = out[to - distance];
  }
  if (to !== size) throw new Error(`the page is cut off: ${to} of ${size} bytes`);
  return out;
}

const unzigzag = (v) => (v < 0x80000000 ? (v >>> 1) ^ -(v & 1) : (v % 2 ? -(v + 1) / 2 : v / 2));

class Columns {
  constructor(bytes) {
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
    this.body = bytes.subarray(4 + size);
  }

  bytes(name) {
    const [at, size] = this.head.columns[name];
    return this.body.subarray(at, at + size);
  }

  /** Calls put(place, number) for each. */
  each(name, put) {
    const bytes = this.bytes(name);
    for (let at = 0, i = 0; at < bytes.length; ++i) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let scale = 128; byte > 127; scale *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * scale;
      }
      put(i, value);
    }
  }

  numbers(name, list) {
    this.each(name, (i, v) => { list[i] = v; });
    return list;
  }

  signed(name, list) {
    this.each(name, (i, v) => { list[i] = unzigzag(v); });
    return list;
  }

  /** Each is the difference to the one before. */
  sums(name, list) {
    let sum = 0;
    this.each(name, (i, v) => { list[i] = sum += unzigzag(v); });
    return list;
  }

  /** 0 is none. */
  optional(name, list, none) {
    this.each(name, (i, v) => { list[i] = v === 0 ? none : unzigzag(v - 1); });
    return list;
  }
}
