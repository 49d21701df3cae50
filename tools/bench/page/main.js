'use strict';

const results = JSON.parse(document.getElementById('data').textContent);

function describe() {
  const { machine, plan, host } = results;
  document.getElementById('machine').textContent =
    `${machine.processor}, ${machine.cpus} CPUs on ${machine.cores} cores, ${machine.kernel}, ` +
    `Verbena ${machine.verbena}`;
  document.getElementById('how').textContent =
    `${machine.started}. ${host ? `The other end: ${host}` : 'Both ends on this machine'}` +
    `${machine.devices ? `, devices ${machine.devices}` : ''}. Load ${machine.load_before} before, ` +
    `${machine.load_after} after. Plan ${plan.name}: ${plan.rounds} rounds in turn, ` +
    `${plan.seconds} s for each measurement.`;
  const coverage = plan.rounds > 1 ? coverageOfRounds(plan.rounds) : 0;
  document.getElementById('footer').textContent = coverage === 0 ? '' :
    `Medians of ${plan.rounds} rounds. An interval holds the true median with ` +
    `${(100 * coverage).toFixed(1)} % (order statistics).`;
}

function coverageOfRounds(n) {
  let k = 1;
  while (2 * (k + 1) <= n && coverageOf(n, k + 1) >= 0.95) k += 1;
  return coverageOf(n, k);
}

function addNotices() {
  const list = document.getElementById('notices');
  const said = new Set();
  for (const [word, absences] of [['Failed', results.failed], ['Skipped', results.skipped]]) {
    for (const { title, why } of absences) {
      if (said.has(why)) continue;
      said.add(why);
      element(list, 'li', {}, `${word}: ${title}: ${why}`);
    }
  }
}

describe();
addNotices();
const charts = document.getElementById('charts');
addTiles(document.getElementById('tiles'), results.measurements);
addSizePlots(charts, results.measurements);
addLatencyPlot(charts, results.measurements);
addQueuePairPlots(charts, results.measurements);
addLossPlots(charts, results.measurements);
addTables(document.getElementById('tables'), results.measurements);
