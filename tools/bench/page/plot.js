'use strict';

// One plot: axes, and lines with dots. A series is {name, color, dash, points}; a point is
// {x, y, low, high, text, id, figure}. Drawn again when the card's width changes.

const SVG = document.getElementById('empty').namespaceURI;

function svgElement(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function element(parent, name, attributes = {}, text = undefined) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

const MARGIN = { left: 60, right: 14, top: 22, bottom: 40 };

class Plot {
  /// `axes(series, box)` returns {x, y, xTicks, yTicks, xName, yName}.
  constructor(parent, { name, title, text, series, axes, dots = true }) {
    this.series = series;
    this.axes = axes;
    this.dots = dots;
    this.hidden = new Set();
    this.card = element(parent, 'section', { class: 'card', id: name, 'data-plot': name });
    element(this.card, 'h2', {}, title);
    element(this.card, 'p', {}, text);
    this.svg = svgElement(this.card, 'svg', { role: 'img', 'aria-label': title });
    this.drawLegend();
    new ResizeObserver(() => this.draw()).observe(this.card);
    this.draw();
  }

  drawLegend() {
    const legend = element(this.card, 'div', { class: 'legend' });
    for (const one of this.series) {
      const button = element(legend, 'button', { type: 'button', 'aria-pressed': 'true' });
      const line = svgElement(button, 'svg', { width: 22, height: 8, 'aria-hidden': 'true' });
      this.styleLine(svgElement(line, 'path', { class: 'series', d: 'M1 4H21' }), one);
      button.append(one.name);
      button.addEventListener('click', () => {
        const hide = !this.hidden.delete(one.name);
        if (hide) this.hidden.add(one.name);
        button.setAttribute('aria-pressed', String(!hide));
        this.draw();
      });
    }
  }

  draw() {
    const width = this.svg.clientWidth || 480;
    const height = Math.round(Math.min(340, Math.max(240, width * 0.6)));
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.style.height = `${height}px`;
    this.svg.replaceChildren();
    const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top,
                  bottom: height - MARGIN.bottom };
    const shown = this.series.filter((one) => !this.hidden.has(one.name));
    const axes = this.axes(this.series, box);
    this.drawAxes(axes, box);
    for (const one of shown) this.drawSeries(one, axes);
  }

  drawAxes({ x, y, xTicks, yTicks, xName, yName }, box) {
    for (const [value, text] of yTicks) {
      const at = y.at(value);
      svgElement(this.svg, 'line', { class: 'grid', x1: box.left, x2: box.right, y1: at, y2: at });
      svgElement(this.svg, 'text', { x: box.left - 8, y: at + 4, 'text-anchor': 'end' }, text);
    }
    let free = -Infinity; // where the next text may begin
    for (const [value, text] of xTicks) {
      const at = x.at(value);
      const half = text.length * 3.4;
      svgElement(this.svg, 'line', { class: 'grid', x1: at, x2: at, y1: box.top, y2: box.bottom });
      if (at - half < free) continue;
      svgElement(this.svg, 'text', { x: at, y: box.bottom + 17, 'text-anchor': 'middle' }, text);
      free = at + half + 6;
    }
    svgElement(this.svg, 'line', { class: 'axis', x1: box.left, x2: box.right, y1: box.bottom,
                                   y2: box.bottom });
    svgElement(this.svg, 'text', { x: box.right, y: box.bottom + 34, 'text-anchor': 'end' }, xName);
    svgElement(this.svg, 'text', { x: 2, y: 12 }, yName);
  }

  drawSeries(series, { x, y }) {
    const group = svgElement(this.svg, 'g', { 'data-series': series.name });
    const at = series.points.map((point) => [x.at(point.x), y.at(point.y)]);
    if (at.length > 1) {
      const path = at.map(([px, py], i) => `${i ? 'L' : 'M'}${px.toFixed(1)} ${py.toFixed(1)}`).join('');
      const line = svgElement(group, 'path', { class: 'series', d: path });
      this.styleLine(line, series);
      if (series.id) line.setAttribute('data-id', series.id);
    }
    if (!this.dots) return;
    series.points.forEach((point, i) => this.drawDot(group, series, point, at[i], y));
  }

  styleLine(line, series) {
    line.style.stroke = series.color;
    if (series.dash) line.setAttribute('stroke-dasharray', series.dash);
  }

  drawDot(group, series, point, [px, py], y) {
    if (point.high > point.low) {
      const bar = svgElement(group, 'line', { class: 'interval', x1: px, x2: px, y1: y.at(point.low),
                                              y2: y.at(point.high) });
      bar.style.stroke = series.color;
    }
    const dot = svgElement(group, 'circle', {
      class: 'dot', cx: px, cy: py, r: 4.5, 'data-id': point.id, 'data-figure': point.figure,
      'data-value': point.y, tabindex: 0 });
    dot.style.fill = series.color;
    svgElement(dot, 'title', {}, point.text);
    for (const event of ['pointerenter', 'focus', 'pointerdown']) {
      dot.addEventListener(event, () => showTip(dot, point.text));
    }
    for (const event of ['pointerleave', 'blur']) dot.addEventListener(event, hideTip);
  }
}

function showTip(dot, text) {
  const tip = document.getElementById('tip');
  tip.textContent = text;
  tip.hidden = false;
  const at = dot.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.min(Math.max(8, at.left - width / 2), innerWidth - width - 8)}px`;
  tip.style.top = `${at.top > height + 16 ? at.top - height - 8 : at.bottom + 8}px`;
}

function hideTip() {
  document.getElementById('tip').hidden = true;
}
