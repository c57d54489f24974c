// The lifecycle bench's other side: BullMQ on the Redis of a port.
//
//     node lifecycle.js PORT
//
// One line of standard input is one round, "JOBS PROCESSES WORKERS CONCURRENCY BULK PAYLOAD_BYTES DELAY_MS"; one line of
// JSON answers it.  Jobs are added with addBulk, BULK at a time, while PROCESSES with WORKERS of CONCURRENCY each run them: of ten jobs one
// fails every time and ends dead, five fail twice and then succeed, four succeed at once.  A retry waits for DELAY_MS.  The
// clock runs from the first addBulk until the last job is done or dead; processes and connections are there before.
import { fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Queue, Worker } from 'bullmq';
import Redis from 'ioredis';

const ATTEMPTS = 3;
const FAILS = [99, 2, 2, 2, 2, 2, 0, 0, 0, 0]; // by the number of a job, modulo ten

const connect = (port) => new Redis({ host: '127.0.0.1', port, maxRetriesPerRequest: null });
const now = () => Number(process.hrtime.bigint()); // the same clock in every process
const messages = (emitter, kind) =>
  new Promise((resolve) => {
    const listen = (message) => {
      if (message.kind !== kind) return;
      emitter.off('message', listen);
      resolve(message);
    };
    emitter.on('message', listen);
  });

// ---- a worker's process

function runWorkers(port, queue, count, concurrency) {
  const counts = { kind: 'progress', done: 0, dead: 0, attempts: 0 };
  const took = [];
  const run = async (job) => {
    counts.attempts++;
    if (job.attemptsMade < job.data.fails) throw new Error('the host did not answer');
    return { delivered: true };
  };
  const ended = (job, kind) => {
    counts[kind]++;
    took.push(now() - job.data.at);
  };
  const workers = Array.from({ length: count }, () => {
    const worker = new Worker(queue, run, { connection: connect(port), concurrency });
    worker.on('completed', (job) => ended(job, 'done'));
    worker.on('failed', (job) => job.attemptsMade >= ATTEMPTS && ended(job, 'dead'));
    worker.on('error', (error) => { console.error(error); process.exit(1); });
    return worker;
  });
  const ticker = setInterval(() => process.send(counts), 5);
  process.on('message', async () => {
    clearInterval(ticker);
    await Promise.all(workers.map((worker) => worker.close()));
    process.send({ kind: 'took', took }, () => process.exit(0));
  });
  process.on('disconnect', () => process.exit(0));
  Promise.all(workers.map((worker) => worker.waitUntilReady())).then(() => process.send({ kind: 'ready' }));
}

// ---- the process that adds, and watches

async function addAll(queue, jobs, bulk, payload, delay) {
  const note = 'n'.repeat(Math.max(0, payload - 120));
  const backoff = delay ? { backoff: { type: 'fixed', delay } } : {};
  for (let from = 0; from < jobs; from += bulk) {
    const batch = [];
    const at = now();
    for (let n = from; n < Math.min(jobs, from + bulk); n++)
      batch.push({
        name: 'invoice.send',
        data: { invoice: n, fails: FAILS[n % 10], at, requested_by: 'billing@example.org', note },
        opts: { attempts: ATTEMPTS, removeOnComplete: true, ...backoff },
      });
    await queue.addBulk(batch);
  }
}

const quantile = (sorted, share) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] / 1e6;

async function runRound(port, number, [jobs, processes, workers, concurrency, bulk, payload, delay]) {
  const name = `bench-${process.pid}-${number}`;
  const queue = new Queue(name, { connection: connect(port) });
  await queue.waitUntilReady();
  const children = Array.from({ length: processes }, () =>
    fork(fileURLToPath(import.meta.url), ['worker', port, name, workers, concurrency]));
  await Promise.all(children.map((child) => messages(child, 'ready')));
  const seen = new Map();
  const sum = (what) => [...seen.values()].reduce((total, counts) => total + counts[what], 0);
  const start = now();
  let end;
  const all = new Promise((resolve) => {
    for (const child of children)
      child.on('message', (message) => {
        if (message.kind !== 'progress' || end) return;
        seen.set(child, message);
        if (sum('done') + sum('dead') < jobs) return;
        end = now();
        resolve();
      });
  });
  await addAll(queue, jobs, bulk, payload, delay);
  const added = now();
  await all;
  const took = [];
  for (const child of children) {
    child.send({ kind: 'stop' });
    took.push(...(await messages(child, 'took')).took);
  }
  took.sort((a, b) => a - b);
  const dead = await queue.getFailedCount();
  await queue.obliterate({ force: true });
  await queue.close();
  return {
    jobs, seconds: (end - start) / 1e9, add_seconds: (added - start) / 1e9, done: sum('done'), dead,
    attempts: sum('attempts'), p50_ms: quantile(took, 0.5), p99_ms: quantile(took, 0.99),
  };
}

async function main(port) {
  let number = 0;
  for await (const line of createInterface({ input: process.stdin }))
    console.log(JSON.stringify(await runRound(port, ++number, line.trim().split(' ').map(Number))));
  process.exit(0);
}

const [role, ...args] = process.argv.slice(2);
if (role === 'worker') runWorkers(Number(args[0]), args[1], Number(args[2]), Number(args[3]));
else await main(Number(role));
