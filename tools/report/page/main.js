// Reads the model, makes the page, and tells tests what it has.

function readModel() {
  const data = byId('model');
  const bytes = decompress(bytesOfBase64(data.textContent), Number(data.dataset.size));
  data.textContent = '';
  return new Model(new Columns(bytes));
}

const model = readModel();
const page = new Page(model);
page.drawNow();

window.verbenaReport = {
  events: model.length,
  conversations: model.conversations,
  event: (i) => ({
    kind: Object.keys(Kind).find((k) => Kind[k] === model.kind[i]), side: model.right[i] ? 'right' : 'left',
    conversation: model.conversation[i], time: model.time[i], arrived: model.arrived[i],
    opcode: model.opcode[i], psn: model.psn[i], bytes: model.bytes[i], what: model.text(model.what[i]),
    note: model.text(model.note[i]), request: model.request[i],
    flags: Object.keys(Flag).filter((k) => model.flags[i] & Flag[k]),
    headers: [...model.headerBytes(i)].map((b) => b.toString(16).padStart(2, '0')).join(''),
    rule: model.rules[model.rule[i]],
  }),
  select: (i) => page.select(i),
  selected: () => page.ladder.selected,
  /** The events on the ladder, in their order; empty where they are counted, not drawn. */
  drawn: () => {
    page.drawNow();
    return page.ladder.hits.map(([i]) => i);
  },
  /** Where to click for event i, in the window's coordinates; null: it isn't drawn. */
  whereIs: (i) => {
    page.drawNow();
    const hit = page.ladder.hits.find(([event]) => event === i);
    if (!hit) return null;
    const box = byId('ladder').getBoundingClientRect();
    const part = model.kind[i] === Kind.packet ? 0.2 : 0;
    return [box.left + hit[1] + (hit[3] - hit[1]) * part, box.top + hit[2] + (hit[4] - hit[2]) * part];
  },
};
