<?php
// SPDX-License-Identifier: Apache-2.0
// Counts with Symfony's or Laravel's lock at memcached: counter.php LIBRARY PORT NAME FILE ROUNDS.
// With 0 rounds, is it free? Exit code 0 or 75. With "hold" for them: takes the lock, says so, and
// gives it back when a line comes.
[, $library, $port, $name, $path, $rounds] = $argv;
$memcached = new Memcached();
$memcached->addServer('127.0.0.1', (int) $port);

if ($library === 'symfony') {
    require 'Symfony/Component/Lock/autoload.php';
    $store = new Symfony\Component\Lock\Store\MemcachedStore($memcached, 60);
    $make = fn () => (new Symfony\Component\Lock\LockFactory($store))->createLock($name, 60);
    $take = fn ($lock) => $lock->acquire();
} else {
    require 'Illuminate/Cache/autoload.php';
    $store = new Illuminate\Cache\MemcachedStore($memcached);
    $make = fn () => $store->lock($name, 60);
    $take = fn ($lock) => $lock->get();
}

if ($rounds === 'hold' || $rounds === '0') {
    $lock = $make();
    if (!$take($lock)) {
        exit(75);
    }
    if ($rounds === 'hold') {
        echo "held\n";
        fgets(STDIN);
    }
    $lock->release();
    exit(0);
}
for ($i = 0; $i < (int) $rounds; $i++) {
    $lock = $make();
    while (!$take($lock)) {
        usleep(random_int(1000, 20000));
    }
    $count = (int) file_get_contents($path);
    file_put_contents($path, ($count + 1)."\n");
    $lock->release();
}
