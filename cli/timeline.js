// Draws the page of `ebbtide timeline` from the JSON in #data
// (profiler/timeline.h).
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);

// Bottom to top in the chart. Hues that stay apart for colour-blind readers.
const KINDS = [
  ['parameters', '#4c5f73'], ['optimizer', '#8a9bab'], ['gradients', '#b07aa1'],
  ['saved', '#2f80c1'], ['scratch', '#e8a33d'], ['other', '#9fcf9b'],
];
const LANES = [
  ['forward', '#7f9fbd'], ['backward', '#5a7390'], ['recompute', '#e8a33d'],
  ['offload', '#c8553d'], ['restore', '#3d9970'], ['stall', '#111111'],
];
const BUDGET = '#c8201d';

const byId = (id) => document.getElementById(id);

function element(parent, tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  parent.append(node);
  return node;
}

function size(bytes) {
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return bytes.toFixed(unit === 0 ? 0 : bytes < 10 ? 2 : 1) + ' ' +
      ['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit];
}

function time(nanos) {
  if (nanos === 0) return '0';
  if (nanos >= 1e9) return (nanos / 1e9).toPrecision(4) + ' s';
  if (nanos >= 1e6) return (nanos / 1e6).toPrecision(3) + ' ms';
  return (nanos / 1e3).toPrecision(3) + ' µs';
}

const budget = data.budgets.length ? data.budgets.at(-1)[1] : null;

function showHead() {
  const command = data.run && data.run.command;
  byId('command').textContent =
      Array.isArray(command) ? command.join(' ') : command || '';
  const whole = data.steps.filter((step) => step[2] >= 0);
  const mean = whole.reduce((sum, s) => sum + s[2] - s[1], 0) / whole.length;
  const tiles = [
    ['peak', size(data.peak)],
    ['budget', budget === null ? 'none' : size(budget)],
    ['steps', whole.length],
    ['mean step', whole.length ? time(mean) : '-'],
    ['dropped to recompute', size(data.total.dropped)],
    ['recomputing', time(data.total.recompute.nanos)],
    ['spilled', size(data.total.spilled)],
    ['waiting for copies', time(data.total.stall.nanos)],
  ];
  for (const [label, value] of tiles) {
    const tile = element(byId('tiles'), 'div', undefined, 'tile');
    element(tile, 'b', value);
    element(tile, 'span', label);
  }
  const warn = (text) => element(byId('warnings'), 'p', text);
  if (data.damage) {
    warn('The trace is damaged; this is what precedes ' + data.damage + '.');
  } else if (!data.complete) {
    warn('The run has not ended, or was killed: the trace has no end.');
  }
  if (data.dropped_records) {
    warn(data.dropped_records + ' records were left out: the trace was full, ' +
         'or could not be written fast enough.');
  }
}

function showLegend(row) {
  const legend = byId('legend');
  legend.textContent = '';
  let total = 0;
  for (const [kind, colour] of KINDS) {
    const item = element(legend, 'span');
    element(item, 'i').style.background = colour;
    item.append(kind + ' ');
    if (row !== undefined) {
      element(item, 'b', size(data.curve.live[kind][row]));
      total += data.curve.live[kind][row];
    }
  }
  if (budget !== null) {
    const item = element(legend, 'span');
    element(item, 'i').style.background = BUDGET;
    item.append('budget');
  }
  if (row !== undefined) {
    element(legend, 'span',
            'total ' + size(total) + ' at ' + time(data.curve.time[row]));
  }
}

// Alternating steps get a tint; the budget is a line from where it was set.
function drawUnderlay(canvas, area, chart) {
  data.steps.forEach((step, i) => {
    if (i % 2 || step[2] < 0) return;
    const left = chart.toDomXCoord(step[1] / 1e9);
    const right = chart.toDomXCoord(step[2] / 1e9);
    canvas.fillStyle = '#f1f4f7';
    canvas.fillRect(left, area.y, right - left, area.h);
  });
}

function drawBudget(canvas, chart) {
  const area = chart.getArea();
  canvas.save();
  canvas.strokeStyle = BUDGET;
  canvas.lineWidth = 1.5;
  canvas.setLineDash([6, 4]);
  data.budgets.forEach(([from, bytes], i) => {
    const next = data.budgets[i + 1];
    const left = Math.max(area.x, chart.toDomXCoord(from / 1e9));
    const right = next ? chart.toDomXCoord(next[0] / 1e9) : area.x + area.w;
    const y = chart.toDomYCoord(bytes);
    if (y < area.y || right < left) return;
    canvas.beginPath();
    canvas.moveTo(left, y);
    canvas.lineTo(right, y);
    canvas.stroke();
  });
  canvas.restore();
}

function showCurve() {
  const curve = data.curve;
  if (!curve.time.length) {
    element(byId('curve'), 'p', 'The trace holds no allocation curve.');
    return null;
  }
  // dygraphs stacks the last series lowest.
  const kinds = [...KINDS].reverse();
  const rows = curve.time.map(
      (t, i) => [t / 1e9, ...kinds.map(([kind]) => curve.live[kind][i])]);
  const last = rows.at(-1);
  if (data.nanos / 1e9 > last[0]) rows.push([data.nanos / 1e9, ...last.slice(1)]);
  // A budget far above everything would flatten the curve; it is cut off.
  const lines = data.budgets.map((each) => each[1])
                    .filter((bytes) => bytes < 3 * data.peak);
  const top = 1.06 * Math.max(data.peak, ...lines);
  return new Dygraph(byId('curve'), rows, {
    labels: ['time', ...kinds.map(([kind]) => kind)],
    colors: kinds.map(([, colour]) => colour),
    stackedGraph: true,
    stepPlot: true,
    fillAlpha: 0.85,
    strokeWidth: 0.5,
    valueRange: [0, top],
    dateWindow: [0, data.nanos / 1e9],
    legend: 'never',
    axes: {
      x: {axisLabelFormatter: (t) => time(t * 1e9), axisLabelWidth: 90,
          drawGrid: false},
      y: {axisLabelFormatter: size, axisLabelWidth: 80, labelsKMG2: true},
    },
    highlightCircleSize: 0,
    highlightCallback: (event, x, points, row) =>
        showLegend(Math.min(row, curve.time.length - 1)),
    unhighlightCallback: () => showLegend(),
    underlayCallback: drawUnderlay,
    drawCallback: (chart) => {
      drawBudget(chart.hidden_ctx_, chart);
      drawLanes(chart);
    },
  });
}

const ROW = 20;
const usedLanes = LANES.filter(([kind]) => data.lanes[kind].length);

// The lanes share the chart's time axis and plot area.
function laneFrame(chart) {
  const area = chart ? chart.getArea() :
      {x: 80, w: byId('lanes').clientWidth - 80};
  const [from, to] = chart ? chart.xAxisRange() : [0, data.nanos / 1e9];
  return {left: area.x, width: area.w, from: from * 1e9, to: to * 1e9};
}

function drawLanes(chart) {
  const canvas = byId('lanes');
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = usedLanes.length * ROW + 6;
  canvas.style.height = height + 'px';
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext('2d');
  pen.scale(scale, scale);
  pen.font = '12px system-ui, sans-serif';
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  const frame = laneFrame(chart);
  const x = (t) =>
      frame.left + (t - frame.from) / (frame.to - frame.from) * frame.width;
  usedLanes.forEach(([kind, colour], i) => {
    const y = i * ROW + 4;
    pen.fillStyle = '#5d6b7a';
    pen.fillText(kind, frame.left - 8, y + ROW / 2 - 2);
    pen.fillStyle = '#f6f8fa';
    pen.fillRect(frame.left, y, frame.width, ROW - 4);
    pen.fillStyle = colour;
    for (const [begin, end] of data.lanes[kind]) {
      if (end < frame.from || begin > frame.to) continue;
      const left = Math.max(frame.left, x(begin));
      const right = Math.min(frame.left + frame.width, x(end));
      pen.fillRect(left, y, Math.max(0.7, right - left), ROW - 4);
    }
  });
}

function spanAt(chart, px, py) {
  const lane = usedLanes[Math.floor((py - 4) / ROW)];
  if (!lane) return null;
  const frame = laneFrame(chart);
  const perPixel = (frame.to - frame.from) / frame.width;
  const t = frame.from + (px - frame.left) * perPixel;
  const hit = data.lanes[lane[0]].find(
      ([begin, end]) => begin - perPixel <= t && t <= end + perPixel);
  return hit && [lane[0], ...hit];
}

function pointAtLanes(chart) {
  const tip = byId('tip');
  byId('lanes').addEventListener('mousemove', (event) => {
    const hit = spanAt(chart, event.offsetX, event.offsetY);
    tip.style.display = hit ? 'block' : 'none';
    if (!hit) return;
    const [kind, begin, end, name, count, bytes] = hit;
    tip.textContent = kind + ': ' + name +
        (count > 1 ? ' and ' + (count - 1) + ' more' : '') + ', ' +
        time(end - begin) + (bytes ? ', ' + size(bytes) : '');
    tip.style.left = Math.min(event.clientX + 12, innerWidth - 440) + 'px';
    tip.style.top = event.clientY + 12 + 'px';
  });
  byId('lanes').addEventListener('mouseleave',
                                 () => { tip.style.display = 'none'; });
}

const MOST_ROWS = 300;

function fillTable(table, heads, rows) {
  const head = element(element(table, 'thead'), 'tr');
  for (const text of heads) element(head, 'th', text);
  const body = element(table, 'tbody');
  for (const {cells, className} of rows.slice(0, MOST_ROWS)) {
    const line = element(body, 'tr', undefined, className);
    for (const text of cells) element(line, 'td', text);
  }
  if (rows.length > MOST_ROWS) {
    element(element(body, 'tr'), 'td',
            'and ' + (rows.length - MOST_ROWS) + ' more');
  }
}

function opCells(row, name) {
  const some = (count, text) => count ? text : '';
  const copied = (lane) => some(
      row[lane].count, size(row[lane].bytes) + ' in ' + time(row[lane].nanos));
  return [
    name, some(row.drops, row.drops), some(row.drops, size(row.dropped)),
    some(row.recompute.count, row.recompute.count),
    some(row.recompute.count, time(row.recompute.nanos)),
    some(row.spills, row.spills), some(row.spills, size(row.spilled)),
    copied('offload'), copied('restore'),
    some(row.stall.count, time(row.stall.nanos)),
  ];
}

function showTables() {
  const rows = data.rows.map((row) => ({cells: opCells(row, row.name)}));
  rows.unshift({cells: opCells(data.total, 'all'), className: 'total'});
  fillTable(byId('rows'),
            ['op', 'drops', 'dropped', 'recomputed', 'recompute time', 'spills',
             'spilled', 'offloaded', 'restored', 'waiting'], rows);
  fillTable(byId('steps'), ['step', 'begins', 'takes', 'peak'],
            data.steps.map(([index, begin, end, peak]) => ({
              cells: [index, time(begin), end < 0 ? 'no end' : time(end - begin),
                      end < 0 ? '' : size(peak)],
            })));
  if (!data.notes.length) byId('notes-title').remove();
  fillTable(byId('notes'), [],
            data.notes.map(([t, text]) => ({cells: [text, time(t)]})));
}

showHead();
showLegend();
showTables();
const chart = showCurve();
if (!chart) {
  drawLanes(null);
  window.addEventListener('resize', () => drawLanes(null));
}
pointAtLanes(chart);
