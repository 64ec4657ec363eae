/* SPDX-License-Identifier: Apache-2.0 */
// node-redlock on one server, measured: peer.js PORT <ORDERS; knows the order "pairs FLOWS MS".
const Redis = require('ioredis');
const Redlock = require('redlock');

const redlock = new Redlock([new Redis(Number(process.argv[2]))], { retryCount: 0 });

async function run(name, end, times) {
  let before = process.hrtime.bigint();
  while (before < end) {
    const lock = await redlock.lock(name, 30000);
    await lock.unlock();
    const after = process.hrtime.bigint();
    times.push(Number(after - before));
    before = after;
  }
}

async function pairs(flows, ms) {
  const times = [];
  const began = process.hrtime.bigint();
  const end = began + BigInt(ms) * 1000000n;
  await Promise.all([...Array(flows).keys()].map((i) => run(`lock:node:${i}`, end, times)));
  const spent = process.hrtime.bigint() - began;
  times.sort((a, b) => a - b);
  console.log(`p50=${times[times.length >> 1]} p99=${times[Math.floor(times.length * 0.99)]} ` +
      `pairs=${times.length} ns=${spent}`);
}

async function main() {
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const [, flows, ms] = line.split(' ').map(Number);
    await pairs(flows, ms);
  }
  process.exit(0);
}

main();
