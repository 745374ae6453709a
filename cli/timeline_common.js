// What the page of one run and that of two have in common: the JSON in #data
// (profiler/timeline_json.h), words, tables, lines.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);

// Reads the numbers of a packed list.
class Numbers {
  constructor(packed) {
    this.rows = packed.rows;
    this.bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
    this.at = 0;
  }
  next() {
    let value = 0;
    let scale = 1;
    let byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

// By column: time, event, total, and live[cause].
function unpackCurve(packed) {
  const numbers = new Numbers(packed);
  const columns = packed.causes.map(() => new Float64Array(numbers.rows));
  const time = new Float64Array(numbers.rows);
  const event = new Float64Array(numbers.rows);
  const total = new Float64Array(numbers.rows);
  const last = new Array(columns.length + 2).fill(0);
  for (let row = 0; row < numbers.rows; ++row) {
    for (let i = 0; i < last.length; ++i) last[i] += numbers.next();
    time[row] = last[0];
    event[row] = last[1];
    for (let i = 0; i < columns.length; ++i) {
      columns[i][row] = last[i + 2];
      total[row] += last[i + 2];
    }
  }
  const live = {};
  packed.causes.forEach((cause, i) => { live[cause] = columns[i]; });
  return {length: numbers.rows, time, event, total, live};
}

// The first index of a growing list whose value is above `limit`.
function firstAbove(list, limit) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] > limit) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

const byId = (id) => document.getElementById(id);
const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue('--' + name)
        .trim();

function size(bytes) {
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return bytes.toFixed(unit === 0 ? 0 : Math.abs(bytes) < 10 ? 2 : 1) + ' ' +
      ['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit];
}

function time(nanos) {
  const short = (value) => String(+value.toPrecision(4));
  if (Math.abs(nanos) >= 1e9) return short(nanos / 1e9) + ' s';
  if (Math.abs(nanos) >= 1e6) return short(nanos / 1e6) + ' ms';
  if (Math.abs(nanos) >= 1e3) return short(nanos / 1e3) + ' µs';
  return nanos === 0 ? '0' : nanos + ' ns';
}

const count = (number) => number.toLocaleString('en');

const LABELS = 84;  // pixels left of all charts

function drawLine(pen, chart, points, style, dash) {
  pen.save();
  pen.strokeStyle = style;
  pen.lineWidth = 1.5;
  pen.setLineDash(dash);
  pen.beginPath();
  points.forEach(([x, y], i) => {
    const left = chart.toDomXCoord(x);
    const high = chart.toDomYCoord(y);
    if (i === 0) {
      pen.moveTo(left, high);
    } else {
      pen.lineTo(left, chart.toDomYCoord(points[i - 1][1]));
      pen.lineTo(left, high);
    }
  });
  pen.stroke();
  pen.restore();
}

function element(parent, tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  parent.append(node);
  return node;
}

const MOST_ROWS = 200;

function fillTable(table, heads, rows) {
  table.textContent = '';
  const head = element(element(table, 'thead'), 'tr');
  for (const text of heads) element(head, 'th', text);
  const body = element(table, 'tbody');
  for (const {cells, className} of rows.slice(0, MOST_ROWS)) {
    const line = element(body, 'tr', undefined, className);
    for (const text of cells) element(line, 'td', text);
  }
  if (rows.length > MOST_ROWS) {
    element(element(body, 'tr'), 'td',
            'and ' + count(rows.length - MOST_ROWS) + ' more');
  }
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' :
      matchMedia('(prefers-color-scheme: dark)').matches;
};
