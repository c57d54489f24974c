// pg-boss, by its own send, insert, fetch and complete: its work() polls every half a second at best, which fetch does not.
//
// `one`: send for each job; each worker fetches one job and completes it.  `batch`: insert, fetch and complete of BATCH jobs.
// Workers in the process that adds are told how much there is, so that they never fetch in vain; in another one they wait for
// two milliseconds when there was nothing.
import { fileURLToPath } from 'node:url';
import { PgBoss } from 'pg-boss';
import { payload, serve } from '../round.mjs';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const QUEUE = 'invoices';

async function connected(url, max) {
  const boss = new PgBoss({ connectionString: url, max, supervise: false, schedule: false });
  boss.on('error', (error) => { console.error(error); process.exit(1); });
  await boss.start();
  return boss;
}

// supply counts what is committed and not fetched, for workers of the same process.
function supply() {
  let count = 0;
  const waiting = [];
  return {
    add: (more) => { // may be less
      count += more;
      while (count > 0 && waiting.length) waiting.shift()();
    },
    take: async (most) => {
      while (count <= 0) await new Promise((resolve) => waiting.push(resolve));
      const taken = Math.min(count, most);
      count -= taken;
      return taken;
    },
    end: () => { count = Infinity; while (waiting.length) waiting.shift()(); },
  };
}

async function adder(url, round, here) {
  const boss = await connected(url, round.hands);
  const one = (number) => payload(number, round.bytes);
  return {
    add: async (from, count) => {
      if (round.mode === 'one') await boss.send(QUEUE, one(from));
      else await boss.insert(QUEUE, Array.from({ length: count }, (_, i) => ({ data: one(from + i) })));
      here?.add(count);
    },
    close: () => boss.stop({ graceful: false, close: true }),
  };
}

async function worker(url, round, done, here) {
  const boss = await connected(url, round.hands);
  const most = round.mode === 'batch' ? round.batch : 1;
  let over = false;
  const hand = async () => {
    while (!over) {
      const taken = here ? await here.take(most) : 0;
      if (over) break;
      const jobs = await boss.fetch(QUEUE, { batchSize: most });
      if (jobs.length) {
        await boss.complete(QUEUE, jobs.map((job) => job.id));
        done(jobs.length);
      } else await pause(2);
      here?.add(taken - jobs.length); // others may have had more of them, or less
    }
  };
  const hands = Array.from({ length: round.hands }, hand);
  return {
    close: async () => {
      over = true;
      here?.end();
      await Promise.all(hands);
      await boss.stop({ graceful: false, close: true });
    },
  };
}

async function open(url) {
  const boss = await connected(url, 1);
  let here;
  return {
    begin: async (round) => {
      await boss.createQueue(QUEUE);
      here = round.processes === 1 ? supply() : undefined;
    },
    adder: (round) => adder(url, round, here),
    worker: (round, done) => worker(url, round, done, here),
    empty: async () => true, // complete() has come back for every one that was counted
    close: () => boss.stop({ graceful: false, close: true }),
  };
}

await serve({ open }, fileURLToPath(import.meta.url));
