/* SPDX-License-Identifier: Apache-2.0 */
// Counts with node-redlock: counter.js PORT[,PORT...] NAME FILE ROUNDS; with 0 rounds, is it free? 0
// or 75. With "hold" for them, takes the lock, says so, and gives it back when a line comes.
'use strict';
const fs = require('fs');
const {createRequire} = require('module');
const peers = createRequire(process.env.HOLDFAST_PEERS + '/');
const Redis = peers('ioredis');
const Redlock = peers('redlock');

async function main() {
    const [ports, name, path, rounds] = process.argv.slice(2);
    const clients = ports.split(',').map(port => new Redis(Number(port), '127.0.0.1'));
    const patient = new Redlock(clients, {retryCount: -1, retryDelay: 30, retryJitter: 20});
    const hasty = new Redlock(clients, {retryCount: 0});
    if (rounds === 'hold') {
        const lock = await hasty.lock(name, 60000);
        console.log('held');
        await new Promise(resolve => process.stdin.once('data', resolve));
        await lock.unlock();
        process.stdin.destroy();
    }
    if (Number(rounds) === 0) {
        try {
            await (await hasty.lock(name, 60000)).unlock();
        } catch (error) {
            if (!(error instanceof Redlock.LockError))
                throw error;
            process.exitCode = 75;
        }
    }
    for (let left = Number(rounds); left > 0; left--) {
        const lock = await patient.lock(name, 60000);
        const count = Number(fs.readFileSync(path, 'ascii'));
        fs.writeFileSync(path, `${count + 1}\n`);
        await lock.unlock();
    }
    clients.forEach(client => client.disconnect());
}

main().catch(error => {
    console.error(error);
    process.exit(1);
});
