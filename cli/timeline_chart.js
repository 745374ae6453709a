// The stacked curve, what lies in other tiers, and the lanes: three pictures
// over one axis, which is time or the number of the event.
'use strict';

// Bottom to top. Hues by Okabe and Ito, which stay apart for colour-blind
// readers; neighbours differ in lightness, too.
const CAUSES = [
  ['parameters', 'parameters'], ['optimizer', 'optimizer state'],
  ['gradients', 'gradients'], ['saved', 'saved for backward'],
  ['scratch', 'made again'], ['workspace', 'working memory'],
  ['other', 'other'],
];
const LANES = [
  {label: 'compute', kinds: ['forward', 'backward']},
  {label: 'recompute', kinds: ['recompute']},
  {label: 'copies out', kinds: ['offload']},
  {label: 'copies back', kinds: ['restore']},
  {label: 'waiting', kinds: ['stall']},
];
// More than a screen has columns.
const MOST_POINTS = 3000;
const ROW = 22;

const view = {
  byEvent: false,
  unmanaged: false,
  chart: null,
  tiers: null,
  loaded: null,   // the window that the chart has points for
  selected: null,  // index of a point
};

const unit = () => view.byEvent ? 1 : 1e9;
// Where an instant, in nanoseconds, lies on the axis.
const place = (nanos) => view.byEvent ? eventOf(nanos) : nanos / 1e9;
const extent = () => view.byEvent ?
    [0, Math.max(1, data.events - 1)] : [0, Math.max(data.nanos, 1) / 1e9];
const axisValues = () => view.byEvent ? curve.event : curve.time;
const axisLabel = (x) => view.byEvent ?
    (Number.isInteger(x) ? count(x) : '') : time(Math.round(x * 1e9));

// The window and as much on both of its sides.
function rowsFor([from, to]) {
  const margin = to - from;
  const values = axisValues();
  const first = Math.max(0, firstAbove(values, (from - margin) * unit()) - 2);
  const last =
      Math.min(curve.length, firstAbove(values, (to + margin) * unit()) + 1);
  const kinds = CAUSES.map(([cause]) => curve.live[cause]).reverse();
  const rows = [];
  for (const i of pointsBetween(first, last, MOST_POINTS)) {
    const row = [values[i] / unit()];
    for (const kind of kinds) row.push(kind[i]);
    rows.push(row);
  }
  const end = extent()[1];
  if (last === curve.length && rows.length && rows.at(-1)[0] < end) {
    rows.push([end, ...rows.at(-1).slice(1)]);
  }
  view.loaded = [from - margin, to + margin];
  return rows;
}

// Reads finer or further points where the window has left those it has.
function reload() {
  const [from, to] = view.chart.xAxisRange();
  const [begin, end] = view.loaded;
  const [least, most] = extent();
  const fits = (from >= begin || begin <= least) && (to <= end || end >= most);
  const ratio = (end - begin) / (to - from);
  if (fits && ratio < 6 && ratio > 1.5) return;
  if (fits && begin <= least && end >= most && ratio < 3) return;
  view.chart.updateOptions({file: rowsFor([from, to]), dateWindow: [from, to]});
}

function top() {
  // A budget far above everything would flatten the curve; it is cut off.
  const lines = data.budgets.map((each) => each[1])
                    .filter((bytes) => bytes < 2 * data.peak);
  if (view.unmanaged) lines.push(data.plan.unmanaged_peak);
  return 1.06 * Math.max(data.peak, 1, ...lines);
}

function visibleSteps(chart) {
  const [from, to] = chart.xAxisRange();
  return data.steps.filter(
      ([, begin, end]) => end >= 0 && place(end) >= from && place(begin) <= to);
}

function visibleGaps(chart) {
  const [from, to] = chart.xAxisRange();
  return data.gaps.filter(
      ([, , begin, end]) => place(end) >= from && place(begin) <= to);
}

// The curve is not known there: it is drawn over.
function drawGaps(pen, chart, area) {
  pen.fillStyle = colour('line');
  for (const [, , begin, end] of visibleGaps(chart)) {
    const left = chart.toDomXCoord(place(begin));
    const width = chart.toDomXCoord(place(end)) - left;
    pen.fillRect(left, area.y, Math.max(width, 0), area.h);
  }
}

// Every other step has a tint; where the program waited, the ground is marked.
function drawUnderlay(pen, area, chart) {
  pen.fillStyle = colour('tint');
  const steps = visibleSteps(chart);
  if (steps.length < area.w / 6) {
    for (const [index, begin, end] of steps) {
      if (index % 2) continue;
      const left = chart.toDomXCoord(place(begin));
      pen.fillRect(left, area.y, chart.toDomXCoord(place(end)) - left, area.h);
    }
  }
  if (data.recorded_until >= 0) {
    const left = chart.toDomXCoord(place(data.recorded_until));
    pen.fillStyle = colour('line');
    pen.fillRect(left, area.y, area.x + area.w - left, area.h);
  }
}

// Calls draw(x, width, span) for the spans of a lane that are in the window, at
// most once for each half pixel.
function eachVisible(lane, chart, draw) {
  const area = chart.getArea();
  const [from, to] = chart.xAxisRange();
  const scale = area.w / (to - from);
  let drawn = -1;
  const begin = view.byEvent ? timeOf(from) : from * 1e9;
  for (let i = firstAbove(lane.reach, begin - 1); i < lane.length; ++i) {
    const span = lane[i];
    const left = (place(span.begin) - from) * scale;
    if (left > area.w) break;
    const right = (place(span.end) - from) * scale;
    if (right < drawn + 0.5) continue;
    drawn = right;
    const x = Math.max(0, left);
    draw(area.x + x, Math.max(0.8, Math.min(area.w, right) - x), span);
  }
}

function drawStalls(pen, chart) {
  const area = chart.getArea();
  const found = [];
  eachVisible(lanes.stall, chart, (x, width) => found.push([x, width]));
  pen.fillStyle = colour('stall');
  for (const [x, width] of found) {
    pen.fillRect(x, area.y + area.h - 4, width, 4);
  }
  // A band for each would hide the curve where there are many.
  pen.globalAlpha = 0.12;
  for (const [x, width] of found.length < 60 ? found : []) {
    pen.fillRect(x, area.y, width, area.h);
  }
  pen.globalAlpha = 1;
}

function drawBudget(pen, chart) {
  const [, end] = chart.xAxisRange();
  data.budgets.forEach(([from, bytes], i) => {
    const next = data.budgets[i + 1];
    const to = next ? place(next[0]) : end;
    drawLine(pen, chart, [[place(from), bytes], [to, bytes]], colour('budget'),
             [7, 4]);
  });
}

// What each step would take without ebbtide, and with the plan, at the step's
// own pace.
function drawUnmanaged(pen, chart) {
  const steps = visibleSteps(chart);
  if (!view.unmanaged || steps.length > 200) return;
  for (const step of steps) {
    const [from, to] = passOf(step);
    for (const [list, dash] of [['unmanaged', [2, 2]], ['planned', []]]) {
      const points = data.plan[list].map(
          ([at, bytes]) => [place(from + at * (to - from)), bytes]);
      if (!points.length) continue;
      points.push([place(step[2]), points.at(-1)[1]]);
      drawLine(pen, chart, points, colour('ink'), dash);
    }
  }
}

function drawSelected(pen, chart, area) {
  if (view.selected === null) return;
  const x = chart.toDomXCoord(axisValues()[view.selected] / unit());
  if (x < area.x || x > area.x + area.w) return;
  pen.strokeStyle = colour('ink');
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x, area.y);
  pen.lineTo(x, area.y + area.h);
  pen.stroke();
}

function drawOver(chart) {
  const pen = chart.hidden_ctx_;
  const area = chart.getArea();
  pen.save();
  pen.beginPath();
  pen.rect(area.x, area.y, area.w, area.h);
  pen.clip();
  drawGaps(pen, chart, area);
  drawStalls(pen, chart);
  drawBudget(pen, chart);
  drawUnmanaged(pen, chart);
  drawSelected(pen, chart, area);
  pen.restore();
}

function drawLanes(chart) {
  const canvas = byId('lanes');
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = LANES.length * ROW;
  canvas.style.height = height + 'px';
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext('2d');
  pen.scale(scale, scale);
  pen.font = '12px system-ui, sans-serif';
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  const area = chart.getArea();
  LANES.forEach(({label, kinds}, i) => {
    const y = i * ROW + 3;
    pen.fillStyle = colour('soft');
    pen.fillText(label, area.x - 8, y + (ROW - 6) / 2);
    pen.fillStyle = colour('panel');
    pen.fillRect(area.x, y, area.w, ROW - 6);
    for (const kind of kinds) {
      pen.fillStyle = colour(kind);
      eachVisible(lanes[kind], chart, (x, wide) => {
        pen.fillRect(x, y, wide, ROW - 6);
      });
    }
  });
  const pencil = {x: area.x, y: 0, w: area.w, h: height};
  drawSelected(pen, chart, pencil);
}
