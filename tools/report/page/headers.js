// Header bytes as fields, by the table that the tools share (header_layout.h).

/** Bits [offset, offset + width) of `bytes`, the first one being the highest of the first byte. */
function bitsAt(bytes, offset, width) {
  let value = 0n;
  const last = offset + width;
  for (let at = offset & ~7; at < last; at += 8) value = (value << 8n) | BigInt(bytes[at >> 3]);
  const behind = BigInt((8 - (last & 7)) & 7);
  return (value >> behind) & ((1n << BigInt(width)) - 1n);
}

const NAKS = ['PSN sequence error', 'invalid request', 'remote access error',
  'remote operational error', 'invalid RD request'];

function syndromeText(type, value) {
  if (type === 0) return value === 31 ? '31: no credits reported' : `credits, code ${value}`;
  if (type === 1) return `timer, code ${value}`;
  if (type === 3) return `${value}: ${NAKS[value] || 'reserved'}`;
  return String(value);
}

function fieldText(model, bytes, at, [, offset, width, print, names], fields) {
  const value = bitsAt(bytes, at * 8 + offset, width);
  switch (print) {
    case 'decimal': return `${value}${width > 8 ? ` (${hex(value, Math.ceil(width / 4))})` : ''}`;
    case 'flag': return value === 1n ? 'yes' : 'no';
    case 'opcode': return `${hex(value, 2)} ${model.opcodes[value]?.[0] || 'unknown'}`;
    case 'choice': return names.split('|')[Number(value)];
    case 'syndrome':
      return syndromeText(Number(bitsAt(bytes, at * 8 + fields[1][1], fields[1][2])), Number(value));
    case 'bytes':
      return [...bytes.subarray(at + offset / 8, at + (offset + width) / 8)]
        .map((b) => b.toString(16).padStart(2, '0')).join(' ');
    default: return hex(value, Math.ceil(width / 4));
  }
}

/** [{name, title, at, size, fields: [{name, value, first, last}]}] of event i. */
function decodeHeaders(model, i) {
  const bytes = model.headerBytes(i);
  if (bytes.length < 12) return [];
  const names = [...(model.opcodes[bytes[0]]?.[1] || ['BTH'])];
  if (model.flags[i] & Flag.connection) names.push('MAD');
  const list = [];
  let at = 0;
  for (const name of names) {
    const header = model.layout.get(name);
    if (at + header.size > bytes.length) break;  // a capture that cut the packet off
    const start = at;
    list.push({ name, title: header.title, at, size: header.size,
      fields: header.fields.map((field) => ({
        name: field[0], value: fieldText(model, bytes, start, field, header.fields),
        first: start + (field[1] >> 3), last: start + ((field[1] + field[2] - 1) >> 3),
      })) });
    at += header.size;
  }
  return list;
}
