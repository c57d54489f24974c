// round: the half of a peer on PostgreSQL that all of them share.
//
//     node PEER/lifecycle.js DATABASE_URL
//
// One line of standard input is one round, "MODE JOBS PROCESSES HANDS BATCH PAYLOAD_BYTES"; one line of JSON answers it.
// MODE is `one` (every job added, fetched and completed on its own) or `batch` (BATCH at a time).  HANDS add jobs and as many
// run them, at the same time.  PROCESSES is 1 (all of them in this process) or 2 (those who run them in another one).  The
// clock runs from the first job that is added until the database has taken down the end of the last; connections are there
// before.
//
// A peer is { open(url) }, which gives { begin(), adder(round), worker(round, done), empty(), close() }:
//   begin()              makes the tables, and leaves nothing of an earlier round that would be fetched
//   adder(round)         connects, and gives { add(from, count), close() }; add resolves when they are committed
//   worker(round, done)  connects and runs jobs until it is closed; done(count) says how many have ended
//   empty()              whether the database has no job left to end
import { fork } from 'node:child_process';
import { createInterface } from 'node:readline';

const now = () => Number(process.hrtime.bigint()) / 1e9; // the same clock in every process
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// payload is the same for every peer but for its number: PAYLOAD_BYTES of JSON.
export function payload(number, bytes) {
  const text = { action: 'invoice.send', requested_by: 'billing@example.org', invoice: number, note: '' };
  text.note = 'n'.repeat(Math.max(0, bytes - JSON.stringify(text).length));
  return text;
}

// ---- those who run jobs, in this process or in another

async function runHere(session, round, done) {
  return session.worker(round, done);
}

async function runThere(round, done, script, url) {
  const child = fork(script, [url, 'worker', JSON.stringify(round)]);
  const ended = new Promise((resolve, reject) =>
    child.on('exit', (code) => (code ? reject(new Error(`a worker's process ended with ${code}`)) : resolve())));
  await new Promise((resolve, reject) => {
    ended.catch(reject);
    child.on('message', (message) => (message.ready ? resolve() : done(message.done)));
  });
  return { close: () => { child.send('stop'); return ended; } };
}

async function beWorker(peer, url, round) {
  let count = 0;
  const session = await peer.open(url);
  const worker = await session.worker(round, (more) => { count += more; });
  const ticker = setInterval(() => {
    if (count) process.send({ done: count });
    count = 0;
  }, 2);
  process.on('message', async () => {
    clearInterval(ticker);
    await worker.close();
    await session.close();
    process.exit(0);
  });
  process.on('disconnect', () => process.exit(1));
  process.send({ ready: true });
}

// ---- one round

async function addAll(adder, round) {
  const step = round.mode === 'batch' ? round.batch : 1;
  let next = 0;
  const hand = async () => {
    while (next < round.jobs) {
      const from = next;
      next = Math.min(round.jobs, from + step);
      await adder.add(from, next - from);
    }
  };
  await Promise.all(Array.from({ length: round.hands }, hand));
}

async function runRound(session, round, script, url) {
  let count = 0;
  let allDone;
  const all = new Promise((resolve) => { allDone = resolve; });
  const done = (more) => {
    count += more;
    if (count >= round.jobs) allDone();
  };
  await session.begin(round);
  const adder = await session.adder(round);
  const worker = await (round.processes === 1 ? runHere(session, round, done) : runThere(round, done, script, url));
  const start = now();
  await addAll(adder, round);
  const added = now();
  await all;
  while (!(await session.empty(round))) await pause(2);
  const end = now();
  await worker.close();
  await adder.close();
  return { jobs: round.jobs, done: count, seconds: end - start, add_seconds: added - start };
}

export async function serve(peer, script) {
  const [url, role, job] = process.argv.slice(2);
  if (role === 'worker') return beWorker(peer, url, JSON.parse(job));
  let number = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    const [mode, ...numbers] = line.trim().split(' ');
    const [jobs, processes, hands, batch, bytes] = numbers.map(Number);
    const round = { mode, jobs, processes, hands, batch, bytes, number: ++number };
    const session = await peer.open(url);
    console.log(JSON.stringify(await runRound(session, round, script, url)));
    await session.close();
  }
  process.exit(0);
}
