// Charts, pointer, keys and the two looks.
'use strict';

function showTiers(range) {
  if (!tiers.length) {
    byId('tiers').remove();
    return null;
  }
  const rows = tiers.map((each) => [each.time, each.host, each.disk]);
  rows.unshift([0, 0, 0]);
  rows.push([data.nanos, ...rows.at(-1).slice(1)]);
  const onAxis = (list) =>
      list.map(([t, ...rest]) => [place(t), ...rest]);
  const most = Math.max(...tiers.map((each) => each.host + each.disk));
  return new Dygraph(byId('tiers'), onAxis(rows), {
    labels: ['time', 'host', 'disk'],
    colors: [colour('host'), colour('disk')],
    stackedGraph: true,
    stepPlot: true,
    fillAlpha: 0.8,
    strokeWidth: 0.5,
    valueRange: [0, 1.6 * most],
    dateWindow: range,
    legend: 'never',
    interactionModel: {},
    axisLineColor: colour('line'),
    gridLineColor: colour('line'),
    axes: {
      x: {drawAxis: false, drawGrid: false},
      y: {axisLabelFormatter: size, axisLabelWidth: LABELS - 8,
          pixelsPerLabel: 24, labelsKMG2: true},
    },
    highlightCircleSize: 0,
    underlayCallback: (pen, area) => {
      pen.fillStyle = colour('soft');
      pen.font = '12px system-ui, sans-serif';
      pen.fillText(PLACES.join(' and '), area.x + 6, area.y + 13);
    },
  });
}

function looks() {
  return {
    colors: CAUSES.map(([cause]) => colour(cause)).reverse(),
    axisLineColor: colour('line'),
    gridLineColor: colour('line'),
  };
}

let drawing = false;
function drawn(chart) {
  drawOver(chart);
  if (!view.chart || drawing) {
    drawLanes(chart);
    return;
  }
  drawing = true;
  reload();
  if (view.tiers) view.tiers.updateOptions({dateWindow: chart.xAxisRange()});
  drawing = false;
  drawLanes(chart);
}

function showCurve() {
  if (!curve.length) {
    element(byId('curve'), 'p', 'The trace holds no allocation curve.');
    byId('curve').classList.add('empty');
  }
  const range = extent();
  const rows = curve.length ? rowsFor(range) :
      [[0, ...CAUSES.map(() => 0)], [range[1], ...CAUSES.map(() => 0)]];
  view.loaded = view.loaded || range;
  const labels = CAUSES.map(([, label]) => label).reverse();
  view.chart = new Dygraph(byId('curve'), rows, {
    labels: ['time', ...labels],
    ...looks(),
    // dygraphs stacks the last series lowest.
    stackedGraph: true,
    stepPlot: true,
    fillAlpha: 0.9,
    strokeWidth: 0,
    valueRange: [0, top()],
    dateWindow: range,
    legend: 'never',
    axes: {
      x: {axisLabelFormatter: axisLabel, axisLabelWidth: 90, drawGrid: false,
          pixelsPerLabel: 110},
      y: {axisLabelFormatter: size, axisLabelWidth: LABELS - 8,
          labelsKMG2: true},
    },
    highlightCircleSize: 0,
    highlightCallback: (event, x) => showLegend(pointAt(x)),
    unhighlightCallback: () =>
        showLegend(view.selected === null ? undefined : view.selected),
    clickCallback: (event, x) => select(pointAt(x)),
    underlayCallback: drawUnderlay,
    drawCallback: drawn,
  });
  view.tiers = showTiers(range);
  drawLanes(view.chart);
}

// The last point up to `x`: it holds there.
function pointAt(x) {
  return Math.max(
      0, Math.min(curve.length, firstAbove(axisValues(), x * unit())) - 1);
}

function show(from, to) {
  const [least, most] = extent();
  const width = Math.min(to - from, most - least);
  const begin = Math.max(least, Math.min(from, most - width));
  view.chart.updateOptions({dateWindow: [begin, begin + width]});
}

function zoom(factor, at) {
  const [from, to] = view.chart.xAxisRange();
  const middle = at === undefined ? (from + to) / 2 : at;
  const least = view.byEvent ? 8 : 1e-6;
  const scale = Math.max(factor, least / (to - from));
  show(middle - (middle - from) * scale, middle + (to - middle) * scale);
}

function pan(share) {
  const [from, to] = view.chart.xAxisRange();
  show(from + share * (to - from), to + share * (to - from));
}

function goToPeak() {
  if (!curve.length) return;
  const step = data.steps.find(
      ([, begin, end]) => begin <= data.peak_time && data.peak_time <= end);
  const [from, to] = step ?
      [place(step[1]), place(step[2])] : extent();
  const margin = 0.1 * (to - from);
  if (to > from) show(from - margin, to + margin);
  select(peakPoint());
}

function setAxis(byEvent) {
  const [from, to] = view.chart.xAxisRange();
  const times = view.byEvent ? [timeOf(from), timeOf(to)] : [from * 1e9, to * 1e9];
  view.byEvent = byEvent;
  byId('axis').textContent = byEvent ? 'Axis: events' : 'Axis: time';
  const range = times.map(place);
  if (range[1] <= range[0]) range[1] = range[0] + (byEvent ? 8 : 1e-6);
  const file = rowsFor(range);
  if (view.tiers) {
    view.tiers.destroy();
    view.tiers = showTiers(range);
  }
  view.chart.updateOptions({file, dateWindow: range});
}

function setUnmanaged(shown) {
  view.unmanaged = shown;
  byId('unmanaged').setAttribute('aria-pressed', shown);
  view.chart.updateOptions({valueRange: [0, top()]});
  showLegend(view.selected === null ? undefined : view.selected);
}

function recolour() {
  view.chart.updateOptions(looks());
  if (view.tiers) {
    view.tiers.updateOptions({colors: [colour('host'), colour('disk')]});
  }
  if (budgets) showBudgets();
  if (view.selected !== null) select(view.selected);
  else showLegend();
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  recolour();
}

function neighbour(step) {
  const now = view.selected === null ? peakPoint() : view.selected;
  select(Math.max(0, Math.min(curve.length - 1, now + step)));
}

const KEYS = {
  ArrowLeft: () => pan(-0.2),
  ArrowRight: () => pan(0.2),
  '+': () => zoom(0.6),
  '=': () => zoom(0.6),
  '-': () => zoom(1 / 0.6),
  0: () => show(...extent()),
  ',': () => neighbour(-1),
  '.': () => neighbour(1),
  p: goToPeak,
  e: () => setAxis(!view.byEvent),
  u: () => { if (data.plan.unmanaged.length) setUnmanaged(!view.unmanaged); },
  d: () => setTheme(isDark() ? 'light' : 'dark'),
};

function tellOfSpans() {
  const tip = byId('tip');
  const canvas = byId('lanes');
  canvas.addEventListener('mousemove', (event) => {
    const lane = LANES[Math.floor(event.offsetY / ROW)];
    const chart = view.chart;
    const at = chart.toDataXCoord(event.offsetX);
    const reach = chart.toDataXCoord(event.offsetX + 1) - at;
    let hit = null;
    for (const kind of lane ? lane.kinds : []) {
      const list = lanes[kind];
      const first =
          firstAbove(list.reach, (view.byEvent ? timeOf(at) : at * 1e9) - 1);
      for (let i = Math.max(0, first - 1); i < list.length; ++i) {
        if (place(list[i].begin) > at + reach) break;
        if (place(list[i].end) >= at - reach) hit = [kind, list[i]];
      }
    }
    tip.style.display = hit ? 'block' : 'none';
    if (!hit) return;
    const [kind, span] = hit;
    tip.textContent = kind + ': ' + span.name +
        (span.count > 1 ? ' and ' + count(span.count - 1) + ' more' : '') +
        ', ' + time(span.end - span.begin) +
        (span.bytes ? ', ' + size(span.bytes) : '');
    tip.style.left = Math.min(event.clientX + 12, innerWidth - 320) + 'px';
    tip.style.top = event.clientY + 14 + 'px';
  });
  canvas.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
}

function listen() {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  byId('curve').addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const left = byId('curve').getBoundingClientRect().left;
    zoom(event.deltaY < 0 || event.deltaX < 0 ? 0.8 : 1.25,
         view.chart.toDataXCoord(event.clientX - left));
  }, {passive: false});
  byId('axis').onclick = () => setAxis(!view.byEvent);
  byId('to-peak').onclick = goToPeak;
  byId('whole').onclick = () => show(...extent());
  byId('theme').onclick = KEYS.d;
  if (data.plan.unmanaged.length) {
    byId('unmanaged').onclick = () => setUnmanaged(!view.unmanaged);
  } else {
    byId('unmanaged').remove();
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
  // On paper it is light.
  let before = null;
  window.addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.theme;
    setTheme('light');
  });
  window.addEventListener('afterprint', () => setTheme(before));
  tellOfSpans();
}

showHead();
showTables();
showCurve();
showBudgets();
showExplanation();
listen();
if (curve.length) select(peakPoint());
else showLegend();
// For scripts that look at the page. `painted`: milliseconds to the first frame.
window.timeline =
    {view, select, show, pointAt, places: PLACES, painted: null};
requestAnimationFrame(() => setTimeout(() => {
  window.timeline.painted = performance.now();
}, 0));
