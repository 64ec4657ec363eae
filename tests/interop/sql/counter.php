<?php
// SPDX-License-Identifier: Apache-2.0
// Counts with Symfony's or Laravel's lock in a database:
// counter.php LIBRARY mysql|pgsql PORT USER PASSWORD DATABASE NAME FILE ROUNDS.
// With 0 rounds, is it free? Exit code 0 or 75. With "hold" for them: takes the lock, says so, and
// gives it back when a line comes.
[, $library, $driver, $port, $user, $password, $database, $name, $path, $rounds] = $argv;

if ($library === 'symfony') {
    require 'Symfony/Component/Lock/autoload.php';
    $store = new Symfony\Component\Lock\Store\PdoStore(
        "$driver:host=127.0.0.1;port=$port;dbname=$database",
        ['db_username' => $user, 'db_password' => $password], 0.01, 60);
    $make = fn () => (new Symfony\Component\Lock\LockFactory($store))->createLock($name, 60);
    $take = fn ($lock) => $lock->acquire();
} else {
    require 'Illuminate/Cache/autoload.php';
    require 'Illuminate/Database/autoload.php';
    $manager = new Illuminate\Database\Capsule\Manager();
    $manager->addConnection(['driver' => $driver, 'host' => '127.0.0.1', 'port' => $port,
        'database' => $database, 'username' => $user, 'password' => $password,
        'charset' => $driver === 'mysql' ? 'utf8mb4' : 'utf8']);
    $make = fn () => new Illuminate\Cache\DatabaseLock($manager->getConnection(), 'cache_locks', $name, 60);
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
    usleep(1000); // long enough for another holder, if there were one
    file_put_contents($path, ($count + 1)."\n");
    $lock->release();
}
