// The page of `ebbtide timeline A B`: two runs over one axis.
'use strict';

const STYLES = ['parameters', 'recompute'];  // of the first run and the second
const names = data.runs.map((run) => run.file.replace(/^.*\//, ''));
const runs = data.runs.map((run, i) => ({
  ...run,
  name: names[0] === names[1] ? run.file : names[i],
  curve: unpackCurve(run.curve),
  whole: run.steps.filter(([, , end]) => end >= 0),
  budget: run.budgets.length ? run.budgets.at(-1)[1] : null,
  colour: () => colour(STYLES[i]),
}));
const view = {bySteps: runs.every((run) => run.whole.length > 1), curve: null,
              times: null};

// Instants and step numbers that belong together; in between it is linear. What
// precedes the first step, or follows the last, is as wide as one. The last step
// is written to end with the program: on the axis it does as steps do.
for (const run of runs) {
  const {whole} = run;
  const times = whole.map(([, begin, end]) => end - begin).sort((a, b) => a - b);
  run.median = times.length ? times[(times.length - 1) >> 1] : null;
  run.knots = whole.map(([index, begin]) => [begin, index]);
  if (!whole.length) continue;
  const [last, begin, written] = whole.at(-1);
  const end = Math.min(written, begin + 2 * Math.max(run.median, 1));
  run.knots.push([end, last + 1]);
  if (run.knots[0][0] > 0) run.knots.unshift([0, whole[0][0] - 1]);
  if (run.nanos > end) run.knots.push([run.nanos, last + 2]);
  run.instants = run.knots.map(([instant]) => instant);
}

// Where an instant of a run, in nanoseconds, lies on the axis.
function place(run, nanos) {
  if (!view.bySteps) return nanos / 1e9;
  const next = Math.min(Math.max(firstAbove(run.instants, nanos), 1),
                        run.knots.length - 1);
  const [from, to] = [run.knots[next - 1], run.knots[next]];
  return from[1] + (to[1] - from[1]) * (nanos - from[0]) / (to[0] - from[0]);
}

function livePoints(run) {
  const points = Array.from(
      run.curve.total, (bytes, i) => [place(run, run.curve.time[i]), bytes]);
  points.push([place(run, run.nanos), null]);
  return points;
}

function stepPoints(run) {
  const points =
      run.whole.map(([, begin, end]) => [place(run, begin), end - begin]);
  if (points.length) points.push([place(run, run.instants.at(-1)), null]);
  return points;
}

// Rows of a chart: where either list has a point, what holds in both.
function together(lists) {
  const at = lists.map(() => 0);
  const now = lists.map(() => null);
  const rows = [];
  const nextOf = (list, i) => at[i] < list.length ? list[at[i]][0] : Infinity;
  for (;;) {
    const x = Math.min(...lists.map(nextOf));
    if (x === Infinity) return rows.length ? rows : [[0, ...now]];
    lists.forEach((list, i) => {
      while (nextOf(list, i) <= x) now[i] = list[at[i]++][1];
    });
    rows.push([x, ...now]);
  }
}

function showLegend(values) {
  byId('legend').textContent = '';
  runs.forEach((run, i) => {
    const item = element(byId('legend'), 'span');
    element(item, 'i').style.background = run.colour();
    item.append(run.name +
                (run.budget === null ? ', no budget' :
                                       ', budget ' + size(run.budget)));
    if (values) element(item, 'b', values[i]);
  });
}

function chartIn(id, lists, top, label, more) {
  return new Dygraph(byId(id), together(lists), {
    labels: ['at', ...runs.map((run, i) => i + 1 + ': ' + run.name)],
    colors: runs.map((run) => run.colour()),
    stepPlot: true,
    strokeWidth: 1.5,
    fillGraph: true,
    fillAlpha: 0.1,
    valueRange: [0, 1.06 * Math.max(top, 1)],
    legend: 'never',
    axisLineColor: colour('line'),
    gridLineColor: colour('line'),
    axes: {
      x: {axisLabelFormatter: (x) => !view.bySteps ?
              time(Math.round(x * 1e9)) : Number.isInteger(x) ? count(x) : '',
          axisLabelWidth: 90, drawGrid: false, pixelsPerLabel: 110},
      y: {axisLabelFormatter: label, axisLabelWidth: LABELS - 8,
          labelsKMG2: label === size},
    },
    highlightCircleSize: 0,
    highlightCallback: (event, x, found, row) => showLegend(
        runs.map((run, i) => {
          const value = view[id].getValue(row, i + 1);
          return value === null ? '–' : label(value);
        })),
    unhighlightCallback: () => showLegend(),
    ...more,
  });
}

function drawBudgets(chart) {
  const pen = chart.hidden_ctx_;
  const [from, to] = chart.xAxisRange();
  for (const {budget, colour: style} of runs) {
    if (budget === null) continue;
    drawLine(pen, chart, [[from, budget], [to, budget]], style(), [7, 4]);
  }
}

function showCharts() {
  const peak = Math.max(...runs.map((run) => run.peak));
  // A budget far above everything would flatten the curves; it is cut off.
  const budgets = runs.map((run) => run.budget).filter((b) => b < 2 * peak);
  const longest = Math.max(0, ...runs.flatMap(
      ({whole}) => whole.slice(0, Math.max(1, whole.length - 1))
                       .map(([, begin, end]) => end - begin)));
  for (const chart of [view.curve, view.times]) if (chart) chart.destroy();
  view.times = chartIn('times', runs.map(stepPoints), longest,
                       (nanos) => time(Math.round(nanos)),
                       {interactionModel: {}});
  view.curve = chartIn('curve', runs.map(livePoints), Math.max(peak, ...budgets),
                       size, {drawCallback: (chart) => {
                         drawBudgets(chart);
                         view.times.updateOptions(
                             {dateWindow: chart.xAxisRange()});
                       }});
  byId('axis').textContent = view.bySteps ? 'Axis: steps' : 'Axis: time';
  showLegend();
}

// By step, so that runs of other lengths compare.
const perStep = (run, total) =>
    run.whole_steps ? Math.round(total / run.whole_steps) : null;
const MEASURES = [
  ['peak', size, (run) => run.peak],
  ['budget', size, (run) => run.budget],
  ['steps', count, (run) => run.whole_steps],
  ['median step', time, (run) => run.median],
  ['dropped a step', size, (run) => perStep(run, run.total.dropped)],
  ['recomputing a step', time, (run) => perStep(run, run.total.recompute.nanos)],
  ['offloaded a step', size, (run) => perStep(run, run.total.spilled)],
  ['restored a step', size, (run) => perStep(run, run.total.restore.bytes)],
  ['waiting a step', time, (run) => perStep(run, run.total.stall.nanos)],
];

function difference(format, from, to) {
  if (from === null || to === null) return '';
  if (from === to) return 'none';
  const sign = to > from ? '+' : '-';
  const share = from > 0 ?
      ' (' + sign + (100 * Math.abs(to - from) / from).toFixed(1) + ' %)' : '';
  return sign + format(Math.abs(to - from)) + share;
}

function showDifferences() {
  const shown = (format, value) => value === null ? '–' : format(value);
  fillTable(byId('differences'), ['', ...runs.map((run) => run.name), 'difference'],
            MEASURES.map(([name, format, of]) => {
              const [from, to] = runs.map(of);
              return {cells: [name, shown(format, from), shown(format, to),
                              difference(format, from, to)]};
            }));
}

function compared(format, from, to, more, less) {
  if (from === to) return 'the same';
  const share = from > 0 ?
      ' (' + (100 * Math.abs(to - from) / from).toFixed(0) + ' %)' : '';
  return format(Math.abs(to - from)) + share + ' ' + (to > from ? more : less);
}

function showSummary() {
  const [from, to] = runs;
  const steps = runs.map((run) => run.median);
  let text = 'Against ' + from.name + ', the peak of ' + to.name + ' is ' +
      compared(size, from.peak, to.peak, 'higher', 'lower');
  if (!steps.includes(null)) {
    text += ' and its median step ' + compared(time, ...steps, 'longer', 'shorter');
    const parts = MEASURES.filter(([name]) => /^(recomp|wait)/.test(name))
        .map(([name, format, of]) => [name, format, of(to) - of(from)])
        .filter(([, , nanos]) => nanos > 0)
        .map(([name, format, nanos]) =>
            format(nanos) + ' more ' + name.replace(' a step', ''));
    if (parts.length) text += ', with ' + parts.join(' and ');
  }
  byId('summary').textContent = text + '.';
  const commands = runs.map((run) => [run.run && run.run.command].flat().join(' '));
  byId('command').textContent = [...new Set(commands)].join(' | ');
  const warn = (said) => element(byId('warnings'), 'p', said);
  if (commands[0] !== commands[1]) warn('The two runs have different commands.');
  for (const run of runs) {
    if (run.damage) warn(run.name + ' is damaged; this precedes ' + run.damage + '.');
    else if (!run.complete) warn(run.name + ' has no end: the run goes on, or was killed.');
  }
}

function showRows() {
  const names = new Set(runs.flatMap((run) => run.rows.map((row) => row.name)));
  const columns = [
    [size, (row) => row.dropped], [time, (row) => row.recompute.nanos],
    [size, (row) => row.spilled], [time, (row) => row.stall.nanos],
  ];
  const none = {...runs[0].total, dropped: 0, spilled: 0, recompute: {nanos: 0},
                stall: {nanos: 0}};
  const rows = [...names].map((name) => {
    const pair = runs.map(
        (run) => run.rows.find((row) => row.name === name) || none);
    const cells = columns.map(([format, of]) => {
      const [from, to] = runs.map((run, i) => perStep(run, of(pair[i])) || 0);
      return from === to ? '' : format(from) + ' → ' + format(to);
    });
    return {cells: [name, ...cells]};
  }).filter(({cells}) => cells.slice(1).some((text) => text));
  if (!rows.length) return byId('rows-part').remove();
  fillTable(byId('rows'), ['op', 'dropped a step', 'recomputing a step',
                           'offloaded a step', 'waiting a step'], rows);
}

const KEYS = {
  0: () => view.curve.resetZoom(),
  e: () => {
    if (runs.some((run) => !run.whole.length)) return;
    view.bySteps = !view.bySteps;
    showCharts();
  },
  d: () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    showCharts();
  },
};

showSummary();
showDifferences();
showRows();
showCharts();
byId('whole').onclick = KEYS[0];
byId('axis').onclick = KEYS.e;
byId('theme').onclick = KEYS.d;
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showCharts);
window.timeline = {view};  // for scripts that look at the page
