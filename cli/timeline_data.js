// Unpacks blocks, tiers and lanes, and finds things in them.
'use strict';

function unpackBlock(numbers, last) {
  const next = () => numbers.next();
  const block = {
    number: last.number += next(),
    begin: last.begin += next(),
    beginTime: last.time += next(),
  };
  block.end = block.begin + next();
  block.endTime = block.beginTime + next();
  block.bytes = next();
  block.causes = [];
  let from = block.begin;
  for (let count = next(); count > 0; --count) {
    from += next();
    block.causes.push([from, data.curve.causes[next()]]);
  }
  block.name = data.names[next()];
  block.shape = data.names[next()];
  block.layer = data.names[next()];
  block.unpackedBy = [];
  for (let count = next(); count > 0; --count) {
    block.unpackedBy.push(data.names[next()]);
  }
  const back = next();
  block.value = back === 0 ? null : block.number - back;
  const how = next();
  block.evicted = null;
  if (how > 0) {
    block.how = how % 2 === 1 ? 'drop' : 'spill';
    block.planned = how > 2;
    block.evicted = block.begin + next();
    const returned = next();
    block.returned = returned === 0 ? Infinity : block.begin + returned;
  }
  return block;
}

function unpackBlocks() {
  const numbers = new Numbers(data.blocks);
  const last = {number: 0, begin: 0, time: 0};
  return Array.from({length: numbers.rows}, () => unpackBlock(numbers, last));
}

function unpackLane(packed) {
  const numbers = new Numbers(packed);
  let begin = 0;
  return Array.from({length: numbers.rows}, () => {
    begin += numbers.next();
    const end = begin + numbers.next();
    const name = data.names[numbers.next()];
    const count = numbers.next();
    return {begin, end, name, count, bytes: numbers.next(),
            value: numbers.next()};
  });
}

function unpackTiers() {
  const numbers = new Numbers(data.tiers);
  let time = 0;
  return Array.from({length: numbers.rows}, () => {
    time += numbers.next();
    return {time, host: numbers.next(), disk: numbers.next()};
  });
}

const curve = unpackCurve(data.curve);
const blocks = unpackBlocks();
const byNumber = new Map(blocks.map((block) => [block.number, block]));
const tiers = unpackTiers();
// Where bytes lie that have left the device.
const PLACES = [['host', 'in host memory'], ['disk', 'on disk']]
    .filter(([tier]) => tiers.some((each) => each[tier] > 0))
    .map(([, place]) => place);
const lanes = {};
for (const kind of Object.keys(data.lanes)) {
  lanes[kind] = unpackLane(data.lanes[kind]);
  // Ends of what is nested are not in order: how far any so far reaches.
  let reach = 0;
  lanes[kind].begins = lanes[kind].map((span) => span.begin);
  lanes[kind].reach = lanes[kind].map(
      (span) => (reach = Math.max(reach, span.end)));
}

// Indices of points, coarser from level to level: of eight that follow each
// other the first, the highest and the last.
function makeLevels() {
  let level = Uint32Array.from({length: curve.length}, (_, i) => i);
  const levels = [level];
  while (level.length > 2000) {
    const coarser = [];
    for (let i = 0; i < level.length; i += 8) {
      const end = Math.min(i + 8, level.length);
      let highest = i;
      for (let j = i; j < end; ++j) {
        if (curve.total[level[j]] > curve.total[level[highest]]) highest = j;
      }
      for (const j of new Set([i, highest, end - 1])) coarser.push(level[j]);
    }
    level = Uint32Array.from(coarser);
    levels.push(level);
  }
  return levels;
}
const levels = makeLevels();

// Points [first, last) at the finest level that has at most `most` of them.
function pointsBetween(first, last, most) {
  let chosen = [];
  for (let i = levels.length - 1; i >= 0; --i) {
    const from = firstAbove(levels[i], first - 1);
    const to = firstAbove(levels[i], last - 1);
    if (to - from > most && chosen.length) break;
    chosen = levels[i].subarray(from, to);
  }
  return chosen;
}

// On the event axis an instant lies at the last event up to it.
function eventOf(time) {
  const after = firstAbove(curve.time, time);
  return after === 0 ? 0 : curve.event[after - 1];
}
function timeOf(event) {
  const after = firstAbove(curve.event, event);
  return after === 0 ? 0 : curve.time[after - 1];
}

function causeAt(block, event) {
  let found = block.causes[0][1];
  for (const [from, cause] of block.causes) if (from <= event) found = cause;
  return found;
}

// Who is alive from event `event` on, largest first, and whose bytes are
// elsewhere.
function holdersAt(event) {
  const alive = [];
  const away = [];
  for (const block of blocks) {
    if (block.begin > event) break;
    if (block.end > event) {
      alive.push(block);
    } else if (block.evicted !== null && block.evicted <= event &&
               event < block.returned && stepOfEvent(block.evicted) ===
               stepOfEvent(event)) {
      away.push(block);
    }
  }
  const bySize = (a, b) => b.bytes - a.bytes || a.number - b.number;
  return {alive: alive.sort(bySize), away: away.sort(bySize)};
}

const stepBegins = data.steps.map((step) => step[1]);
function stepOfTime(time) { return firstAbove(stepBegins, time) - 1; }
function stepOfEvent(event) { return stepOfTime(timeOf(event)); }

const gapBegins = data.gaps.map(([first]) => first);
function isLeftOut(step) {
  const after = firstAbove(gapBegins, step);
  return after > 0 && step <= data.gaps[after - 1][1];
}

// When forward and backward of a step begin and end, as far as ops tell.
function passOf([, begin, end]) {
  const {forward, backward} = lanes;
  const first = firstAbove(forward.begins, begin - 1);
  const last = firstAbove(backward.begins, end) - 1;
  if (first === forward.length || last < 0) return [begin, end];
  const from = forward[first].begin;
  const to = Math.min(backward.reach[last], end);
  return begin <= from && from < to ? [from, to] : [begin, end];
}

const budget = data.budgets.length ? data.budgets.at(-1)[1] : null;
function budgetAt(time) {
  let found = null;
  for (const [from, bytes] of data.budgets) if (from <= time) found = bytes;
  return found;
}
