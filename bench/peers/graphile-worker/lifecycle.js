// graphile-worker, as its documentation tunes it: https://worker.graphile.org/docs/performance
//
// `one`: add_job for each job; each worker fetches and completes its jobs by itself.  `batch`: addJobs; a local queue that
// fetches BATCH jobs at a time for twice as many workers; completions that come within one turn of the event loop go out together.
import { fileURLToPath } from 'node:url';
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { payload, serve } from '../round.mjs';

const TASK = 'invoice.send';
const quiet = new Logger(() => (level, message) => { if (level === 'error') console.error(message); });

function pool(url, max) {
  const made = new pg.Pool({ connectionString: url, max, min: max, idleTimeoutMillis: 0 });
  const lost = (error) => { console.error(error); process.exit(1); };
  made.on('error', lost);
  made.on('connect', (client) => client.on('error', lost));
  return made;
}

// filled makes all connections of a pool now.
async function filled(made, count) {
  const clients = await Promise.all(Array.from({ length: count }, () => made.connect()));
  for (const client of clients) client.release();
  return made;
}

async function adder(url, round) {
  const own = await filled(pool(url, round.hands), round.hands);
  const utils = await makeWorkerUtils({ pgPool: own, logger: quiet });
  const one = (number) => payload(number, round.bytes);
  return {
    add: (from, count) => round.mode === 'one'
      ? utils.addJob(TASK, one(from))
      : utils.addJobs(Array.from({ length: count }, (_, i) => ({ identifier: TASK, payload: one(from + i) }))),
    close: async () => { await utils.release(); await own.end(); },
  };
}

async function worker(url, round, done) {
  const batch = round.mode === 'batch';
  const own = await filled(pool(url, round.hands + 2), round.hands);
  const runner = await run({
    pgPool: own,
    logger: quiet,
    noHandleSignals: true,
    taskList: { [TASK]: async () => { done(1); } },
    preset: {
      worker: {
        concurrentJobs: batch ? 2 * round.batch : round.hands,
        ...(batch ? { localQueue: { size: round.batch }, completeJobBatchDelay: 0 } : {}),
      },
    },
  });
  return { close: async () => { await runner.stop(); await own.end(); } };
}

async function open(url) {
  const own = pool(url, 1);
  return {
    begin: async () => {
      const utils = await makeWorkerUtils({ connectionString: url, logger: quiet });
      await utils.migrate();
      await utils.release();
    },
    adder: (round) => adder(url, round),
    worker: (round, done) => worker(url, round, done),
    empty: async () => (await own.query('select not exists (select from graphile_worker.jobs) as empty')).rows[0].empty,
    close: () => own.end(),
  };
}

await serve({ open }, fileURLToPath(import.meta.url));
