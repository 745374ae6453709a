// The page of `ebbtide timeline`: head, legend, who is alive, tables, controls.
'use strict';

const peakPoint = () => Math.max(0, firstAbove(curve.event, data.peak_event) - 1);

// Which steps are missing, and why.
function gapsText() {
  const most = 12;
  const rows = data.gaps.map(([first, last]) =>
      first === last ? count(first) : count(first) + ' to ' + count(last));
  const steps = data.gaps.reduce(
      (sum, [first, last]) => sum + last - first + 1, 0);
  return 'Of ' + count(steps) + ' steps only times and peaks were recorded, to ' +
      'keep the file small: ' + rows.slice(0, most).join(', ') +
      (rows.length > most ?
          ' and others up to ' + count(data.gaps.at(-1)[1]) : '') +
      '. Where they are the curve is grey.';
}

function showHead() {
  const command = data.run && data.run.command;
  byId('command').textContent =
      Array.isArray(command) ? command.join(' ') : command || '';
  const headroom = budget === null ? null : budget - data.peak;
  const tiles = [
    ['peak', size(data.peak)],
    ['budget', budget === null ? 'none' : size(budget)],
    ['headroom', headroom === null ? '–' : size(headroom)],
    ['steps', count(data.whole_steps)],
    ['mean step', data.whole_steps ?
        time(Math.round(data.steps_nanos / data.whole_steps)) : '–'],
    ['dropped', size(data.total.dropped)],
    ['recomputing', time(data.total.recompute.nanos)],
    ['offloaded', size(data.total.spilled)],
    ['waiting', time(data.total.stall.nanos)],
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
  if (data.recorded_until >= 0) {
    warn('The trace was full after ' + time(data.recorded_until) +
         ': later on there are steps only.');
  } else if (data.gaps.length) {
    warn(gapsText());
  } else if (data.dropped_records) {
    warn(count(data.dropped_records) + ' records were left out: they came ' +
         'faster than they could be written.');
  }
}

function legendItem(style, text, value, legend = 'legend') {
  const item = element(byId(legend), 'span');
  const mark = element(item, 'i');
  mark.style.background = style;
  item.append(text);
  if (value !== undefined) element(item, 'b', value);
}

function showLegend(point) {
  byId('legend').textContent = '';
  for (const [cause, label] of CAUSES) {
    if (!curve.live[cause].some((bytes) => bytes > 0)) continue;
    legendItem(colour(cause), label,
               point === undefined ? undefined : size(curve.live[cause][point]));
  }
  if (budget !== null) legendItem(colour('budget'), 'budget', size(budget));
  if (view.unmanaged) {
    legendItem(colour('ink'), 'unmanaged (dotted)',
               size(data.plan.unmanaged_peak));
    if (data.plan.planned.length) legendItem(colour('ink'), 'planned (line)');
  }
  if (point === undefined) return;
  legendItem('transparent', 'total', size(curve.total[point]));
  legendItem('transparent', 'at', time(curve.time[point]));
}

// Why a block is there.
function savedReason(block, event) {
  const why = block.unpackedBy.length ?
      'for ' + block.unpackedBy.join(', ') : 'for backward';
  const source = block.value === null ? null : byNumber.get(block.value);
  if (block.value !== null) {
    const how = source && source.how === 'drop' ? 'made again' : 'brought back';
    const from = source && source.unpackedBy.length ?
        ' for ' + source.unpackedBy.join(', ') : '';
    return how + from;
  }
  if (block.evicted !== null) {
    const by = block.planned ? 'the plan' : 'memory was short:';
    const what = block.how === 'drop' ?
        'drops it, to recompute' : 'copies it out';
    const tense = event < block.evicted ? '; later ' : '; ';
    return why + tense + by + ' ' + what;
  }
  const planned = data.plans.some((from) => from <= timeOf(event));
  return why + (planned ? '; the plan keeps it' : '; kept, memory sufficed');
}

function reason(block, cause, event) {
  switch (cause) {
    case 'parameters': return 'a parameter';
    case 'gradients': return 'gradient of a parameter';
    case 'optimizer': return 'state of the optimizer';
    case 'saved': return savedReason(block, event);
    case 'scratch': {
      const source = byNumber.get(block.value);
      return source ? savedReason(block, event) : 'while something is made again';
    }
    case 'workspace': return 'while ' + block.name + ' and its readers need it';
    default: return 'the program holds it';
  }
}

function describe(block) {
  const source = block.value === null ? null : byNumber.get(block.value);
  const name = (source && source.name) || block.name ||
      (block.causes.at(-1)[1] === 'parameters' ? 'parameter' :
       block.causes.at(-1)[1] === 'gradients' ? 'gradient' :
       'outside forward and backward');
  const shape = block.shape || (source && source.shape);
  return shape ? name + '  ' + shape : name;
}

function layerOf(block) {
  const source = block.value === null ? null : byNumber.get(block.value);
  return block.layer || (source && source.layer) || '';
}

// One name for all: where they differ by numbers, * stands for those.
function together(layers) {
  if (layers.size === 1) return [...layers][0];
  const kinds = new Set([...layers].map((name) => name.replace(/\d+/g, '*')));
  const [first, ...others] = kinds;
  return others.length === 0 ? first : first + ', …';
}

// Blocks that read alike are one row.
function holderRows(body, holders) {
  const rows = new Map();
  for (const {block, cause, why} of holders) {
    const what = describe(block);
    const key = [block.bytes, cause, what, why].join('|');
    const layers = new Set();
    const row = rows.get(key) ||
        {bytes: block.bytes, cause, what, why, count: 0, layers};
    ++row.count;
    if (layerOf(block)) row.layers.add(layerOf(block));
    rows.set(key, row);
  }
  const shown = [...rows.values()].slice(0, MOST_ROWS);
  for (const row of shown) {
    const line = element(body, 'tr');
    line.dataset.bytes = row.bytes;
    line.dataset.count = row.count;
    line.dataset.cause = row.cause;
    element(line, 'td', size(row.bytes));
    const what = element(line, 'td');
    element(what, 'i').style.background =
        row.cause === 'away' ? 'transparent' : colour(row.cause);
    what.append((row.count > 1 ? row.count + ' × ' : '') + row.what);
    const layer = element(line, 'td');
    layer.textContent = row.layers.size ? together(row.layers) : '';
    layer.title = [...row.layers].join('\n');
    element(line, 'td', row.why);
  }
  return shown.reduce((sum, row) => sum + row.count * row.bytes, 0);
}

// Who is alive at a point of the curve.
function select(point) {
  view.selected = point;
  const event = curve.event[point];
  const total = curve.total[point];
  const limit = budgetAt(curve.time[point]);
  const {alive, away} = holdersAt(event);
  byId('alive-title').textContent =
      (event === data.peak_event ? 'Alive at the peak' : 'Alive') + ': ' +
      size(total) + ' at ' + time(curve.time[point]) + ', event ' +
      count(event) +
      (limit === null ? '' : ', headroom ' + size(limit - total));
  const body = byId('alive-rows');
  body.textContent = '';
  const shown = holderRows(body, alive.map((block) => {
    const cause = causeAt(block, event);
    return {block, cause, why: reason(block, cause, event)};
  }));
  const rest = element(body, 'tr', undefined, 'rest');
  element(rest, 'td', size(total - shown)).dataset.bytes = total - shown;
  element(rest, 'td', 'in blocks that are not listed');
  element(rest, 'td');
  element(rest, 'td', 'small or brief, or there before the trace');
  holderRows(body, away.map((block) => ({
    block, cause: 'away',
    why: block.how === 'drop' ? 'dropped: will be made again' :
        PLACES.join(' and ') || 'copied out',
  })));
  showLegend(point);
  redraw();
}

function redraw() {
  if (!view.chart) return;
  view.chart.updateOptions({}, false);
}

function opCells(row, name) {
  const some = (number, text) => number ? text : '';
  const copied = (lane) => some(
      row[lane].count, size(row[lane].bytes) + ' in ' + time(row[lane].nanos));
  return [
    name, some(row.drops, count(row.drops)), some(row.drops, size(row.dropped)),
    some(row.recompute.count, count(row.recompute.count)),
    some(row.recompute.count, time(row.recompute.nanos)),
    some(row.spills, count(row.spills)), some(row.spills, size(row.spilled)),
    copied('offload'), copied('restore'),
    some(row.stall.count, time(row.stall.nanos)),
  ];
}

function showTables() {
  const rows = data.rows.map((row) => ({cells: opCells(row, row.name)}));
  if (rows.length) {
    rows.unshift({cells: opCells(data.total, 'all'), className: 'total'});
    fillTable(byId('rows'),
              ['op', 'drops', 'dropped', 'recomputed', 'recompute time',
               'offloads', 'offloaded', 'copies out', 'copies back', 'waiting'], rows);
  } else {
    byId('rows-part').remove();
  }
  fillTable(byId('steps'), ['step', 'begins', 'takes', 'peak', 'recorded'].slice(
                0, data.gaps.length ? 5 : 4),
            data.steps.map(([index, begin, end, peak]) => ({
              cells: [count(index), time(begin),
                      end < 0 ? 'no end' : time(end - begin),
                      end < 0 ? '' : size(peak),
                      ...(data.gaps.length ?
                          [isLeftOut(index) ? 'times and peak' : 'whole'] :
                          [])],
              className: isLeftOut(index) ? 'rest' : undefined,
            })));
  if (!data.notes.length) byId('notes-part').remove();
  else {
    fillTable(byId('notes'), [],
              data.notes.map(([t, text]) => ({cells: [text, time(t)]})));
  }
}

const explained = data.explanation;

// What `ebbtide explain` says of the plan, in its numbers.
function showExplanation() {
  const facts = explained ? [...explained.unknown].map(
      (sentence) => 'Not known: ' + sentence) : [];
  const floors = explained && explained.floor || {};
  for (const [how, floor] of Object.entries(floors).reverse()) {
    facts.unshift('Floor ' + (how === 'with_spilling' ? 'with' : 'without') +
                  ' offloading: ' +
                  (floor.known === null ? '' : size(floor.known) +
                                        ' by the best plan known; ') +
                  'every plan needs ' + size(floor.proven) + ', for ' +
                  floor.proven_for + '.');
  }
  for (const each of explained && explained.prediction || []) {
    facts.push('Predicted: ' + time(Math.round(each.predicted_time)) + ' and ' +
               size(each.predicted_peak) + ' a step; measured in ' +
               count(each.steps) + ' steps: ' +
               time(Math.round(each.measured_time)) + ' and ' +
               size(each.measured_peak) + '.');
  }
  for (const {why, bytes} of explained && explained.obstacles || []) {
    facts.push('In the way: ' + why + ', ' + size(bytes) + '.');
  }
  for (const fact of facts) element(byId('facts'), 'li', fact);
  const decisions = explained && explained.decisions || [];
  if (decisions.length) {
    fillTable(byId('decisions'), ['value', 'bytes', 'is', 'because'],
              decisions.map(({name, bytes, fate, reason: because}) =>
                  ({cells: [name, size(bytes), fate, because]})));
  } else if (facts.length) {
    byId('explained-title').textContent = 'Explanation';
  } else {
    byId('explained-part').remove();
  }
}

// Step time against budget as `ebbtide explain` has it, and where this run is.
let budgets = null;
function showBudgets() {
  const known = explained && explained.budgets ? explained.budgets.rows : [];
  if (known.length < 2) {
    byId('budgets-part').remove();
    return;
  }
  const rows = known.map(
      (row) => [row.budget, row.without_spilling, row.with_spilling]);
  const best = (row) =>
      Math.min(...row.slice(1).map((nanos) => nanos === null ? Infinity : nanos));
  const widest = Math.max(rows.at(-1)[0], budget || 0) * 1.04;
  rows.push([widest, ...rows.at(-1).slice(1)]);
  const times = rows.flatMap((row) => row.slice(1)).filter((t) => t !== null);
  const highest = Math.max(...times);
  const least = Math.min(...times);
  const spread = highest - least || 0.1 * highest;
  const heights = [Math.max(0, least - spread), highest + 0.3 * spread];
  const here = Math.min(budget === null ? data.peak : budget, widest);
  const hereRow = rows.filter(([bytes]) => bytes <= here).at(-1);
  const hereTime = hereRow && isFinite(best(hereRow)) ? best(hereRow) : null;
  const ways = [['without offloading', colour('parameters')],
                ['with offloading', colour('recompute')]];
  if (budgets) budgets.destroy();
  byId('budgets-legend').textContent = '';
  for (const [way, style] of ways) {
    legendItem(style, way + ' ', undefined, 'budgets-legend');
  }
  budgets = new Dygraph(byId('budgets'), rows, {
    labels: ['budget', ...ways.map(([way]) => way)],
    stepPlot: true,
    strokeWidth: 2,
    legend: 'never',
    colors: ways.map(([, style]) => style),
    valueRange: heights,
    dateWindow: [Math.min(rows[0][0], here) * 0.95, widest],
    axisLineColor: colour('line'),
    gridLineColor: colour('line'),
    axes: {
      x: {axisLabelFormatter: (x) => size(x), axisLabelWidth: 80,
          drawGrid: false, pixelsPerLabel: 90, labelsKMG2: true},
      y: {axisLabelFormatter: (y) => time(Math.round(y)), axisLabelWidth: 64,
          pixelsPerLabel: 44},
    },
    highlightCallback: (event, x, found) => {
      byId('budgets-hint').textContent = size(x) + ': ' +
          found.map(({name, yval}) => time(Math.round(yval)) + ' ' + name)
              .join(', ');
    },
    drawCallback: (chart) => {
      const pen = chart.hidden_ctx_;
      drawLine(pen, chart, [[here, heights[0]], [here, heights[1]]],
               colour('budget'), [7, 4]);
      if (hereTime === null) return;
      pen.fillStyle = colour('budget');
      pen.beginPath();
      pen.arc(chart.toDomXCoord(here), chart.toDomYCoord(hereTime), 5, 0, 7);
      pen.fill();
    },
  });
  byId('budgets-hint').textContent = hereTime !== null ?
      (budget === null ? 'at the peak of this run, ' : 'at this budget, ') +
          size(here) + ': ' + time(Math.round(hereTime)) + ' a step, ' +
          time(Math.round(best(rows.at(-1)))) + ' with nothing evicted' :
      'no plan is known for ' + size(here);
}
