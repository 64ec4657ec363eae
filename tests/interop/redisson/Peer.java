/* SPDX-License-Identifier: Apache-2.0 */
/* The side of Redisson in tests of sharing: a line an order, each done by the thread that it names.
 *
 *     THREAD VERB ARGUMENT...        is answered by        THREAD ANSWER
 *
 * The same orders as peer.c, so that most scenes can be played with the sides exchanged. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;

public final class Peer {
    private static RedissonClient client;

    /* By name: the older versions do not have it. */
    private static RLock fencedLock(String name) throws ReflectiveOperationException {
        return (RLock) RedissonClient.class.getMethod("getFencedLock", String.class)
            .invoke(client, name);
    }

    /* Waits for ever, and answers the token. */
    private static String fence(String name, long leaseMs) throws ReflectiveOperationException {
        return Class.forName("org.redisson.api.RFencedLock")
            .getMethod("lockAndGetToken", long.class, TimeUnit.class)
            .invoke(fencedLock(name), leaseMs, TimeUnit.MILLISECONDS).toString();
    }

    /* "one,two,three" */
    private static RLock several(String names) {
        return client.getMultiLock(
            Arrays.stream(names.split(",")).map(client::getLock).toArray(RLock[]::new));
    }

    private static RLock lockOf(String kind, String name) throws ReflectiveOperationException {
        switch (kind) {
        case "multi":
            return several(name);
        case "mutex":
            return client.getLock(name);
        case "fair":
            return client.getFairLock(name);
        case "read":
            return client.getReadWriteLock(name).readLock();
        case "write":
            return client.getReadWriteLock(name).writeLock();
        case "fenced":
            return fencedLock(name);
        default:
            throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    /* What the thread has of each semaphore. */
    private static final ThreadLocal<Map<String, String>> permits =
        ThreadLocal.withInitial(HashMap::new);

    private static String takePermit(String name, long waitMs, long leaseMs) throws Exception {
        RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
        String id = waitMs < 0 ? semaphore.acquire(leaseMs, TimeUnit.MILLISECONDS)
                               : semaphore.tryAcquire(waitMs, leaseMs, TimeUnit.MILLISECONDS);
        if (id != null) {
            permits.get().put(name, id);
        }
        return id != null ? "ok" : "busy";
    }

    private static String givePermit(String name) {
        String id = permits.get().remove(name);
        return client.getPermitExpirableSemaphore(name).tryRelease(id) ? "ok" : "lost";
    }

    private static String take(String name, int units, long waitMs) throws Exception {
        if (waitMs < 0) {
            client.getSemaphore(name).acquire(units);
            return "ok";
        }
        boolean taken = client.getSemaphore(name).tryAcquire(units, waitMs, TimeUnit.MILLISECONDS);
        return taken ? "ok" : "busy";
    }

    private static String await(String name, long waitMs) throws Exception {
        if (waitMs < 0) {
            client.getCountDownLatch(name).await();
            return "ok";
        }
        return client.getCountDownLatch(name).await(waitMs, TimeUnit.MILLISECONDS) ? "ok" : "busy";
    }

    /* What has no owner; or null: no such order. */
    private static String change(String[] word) throws Exception {
        switch (word[0]) {
        case "permits":
            client.getPermitExpirableSemaphore(word[1]).trySetPermits(Integer.parseInt(word[2]));
            return "ok";
        case "give":
            client.getSemaphore(word[1]).release(Integer.parseInt(word[2]));
            return "ok";
        case "take":
            return take(word[1], Integer.parseInt(word[2]), Long.parseLong(word[3]));
        case "units":
            return Integer.toString(client.getSemaphore(word[1]).availablePermits());
        case "latch":
            return client.getCountDownLatch(word[1]).trySetCount(Integer.parseInt(word[2]))
                ? "ok" : "busy";
        case "down":
            client.getCountDownLatch(word[1]).countDown();
            return "ok";
        case "await":
            return await(word[1], Long.parseLong(word[2]));
        default:
            return null;
        }
    }

    /* Waiting -1 is for ever; a lease of 0 is the watchdog's. */
    private static String lock(RLock lock, long waitMs, long leaseMs) throws Exception {
        long lease = leaseMs == 0 ? -1 : leaseMs;
        if (waitMs < 0) {
            lock.lock(lease, TimeUnit.MILLISECONDS);
            return "ok";
        }
        return lock.tryLock(waitMs, lease, TimeUnit.MILLISECONDS) ? "ok" : "busy";
    }

    private static String unlock(RLock lock) {
        try {
            lock.unlock();
            return "ok";
        } catch (IllegalMonitorStateException lost) {
            return "lost";
        }
    }

    /* A permit has a lease, which nobody renews: longer than anybody's patience. */
    private static void enter(String kind, String name) throws Exception {
        if (kind.equals("permit")) {
            takePermit(name, -1, 3600000);
        } else if (kind.equals("unit")) {
            take(name, 1, -1);
        } else {
            lockOf(kind, name).lock();
        }
    }

    private static void leave(String kind, String name) throws Exception {
        if (kind.equals("permit")) {
            givePermit(name);
        } else if (kind.equals("unit")) {
            client.getSemaphore(name).release();
        } else {
            lockOf(kind, name).unlock();
        }
    }

    /* Nothing but the lock protects the number in the file. */
    private static String count(String kind, String name, Path file, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            enter(kind, name);
            try {
                long number = Long.parseLong(Files.readString(file));
                Thread.yield();
                Files.writeString(file, Long.toString(number + 1));
            } finally {
                leave(kind, name);
            }
        }
        return "ok";
    }

    private static String obey(String[] word) throws Exception {
        String changed = change(word);
        if (changed != null) {
            return changed;
        }
        if (word[0].equals("count")) {
            return count(word[1], word[2], Path.of(word[3]), Integer.parseInt(word[4]));
        }
        if (word[1].equals("permit")) {
            return word[0].equals("lock")
                ? takePermit(word[2], Long.parseLong(word[3]), Long.parseLong(word[4]))
                : givePermit(word[2]);
        }
        switch (word[0]) {
        case "fence":
            return fence(word[1], Long.parseLong(word[2]));
        case "lock":
            return lock(lockOf(word[1], word[2]), Long.parseLong(word[3]), Long.parseLong(word[4]));
        case "unlock":
            return unlock(lockOf(word[1], word[2]));
        case "force":
            return lockOf(word[1], word[2]).forceUnlock() ? "ok" : "lost";
        case "holds":
            return Integer.toString(lockOf(word[1], word[2]).getHoldCount());
        case "locked":
            return lockOf(word[1], word[2]).isLocked() ? "yes" : "no";
        default:
            throw new IllegalArgumentException("no such verb: " + word[0]);
        }
    }

    private static void answer(String thread, String text) {
        synchronized (System.out) {
            System.out.println(thread + " " + text.replace('\n', ' '));
            System.out.flush();
        }
    }

    private static void work(String thread, String[] order) {
        try {
            answer(thread, obey(order));
        } catch (Exception failure) {
            answer(thread, "failed: " + failure);
        }
    }

    /* Whether a worker sleeps until it is told of a release. Redisson forgets a message to readers
     * that comes while one is on its way there. */
    private static boolean isParked(String worker) {
        for (Map.Entry<Thread, StackTraceElement[]> entry : Thread.getAllStackTraces().entrySet())
            if (entry.getKey().getName().equals(worker)
                && entry.getKey().getState() == Thread.State.TIMED_WAITING)
                for (StackTraceElement call : entry.getValue())
                    if (call.getClassName().equals("java.util.concurrent.Semaphore"))
                        return true;
        return false;
    }

    private static String option(URI uri, String name, String otherwise) {
        for (String part : uri.getQuery() == null ? new String[0] : uri.getQuery().split("&"))
            if (part.startsWith(name + "="))
                return part.substring(name.length() + 1);
        return otherwise;
    }

    /* What stands between the scheme's slashes and the host: nothing, or USER:PASSWORD, of which
     * the user may be missing. */
    private static void identify(BaseConfig<?> config, URI uri) {
        String[] word = uri.getAuthority().split("[:@]");
        if (!uri.getAuthority().contains("@"))
            return;
        config.setPassword(word[1]);
        if (!word[0].isEmpty())
            config.setUsername(word[0]);
    }

    /* A replica may be behind, and Redisson 3.20 may find none after a failover. */
    private static void limit(BaseMasterSlaveServersConfig<?> config) {
        config.setReadMode(ReadMode.MASTER).setMasterConnectionMinimumIdleSize(1).setMasterConnectionPoolSize(16)
            .setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(16).setTimeout(30000);
    }

    private static void useSentinels(Config config, URI uri, String[] hosts) throws Exception {
        SentinelServersConfig servers = config.useSentinelServers().addSentinelAddress(hosts)
            .setMasterName(uri.getPath().substring(1)).setCheckSentinelsList(false)
            .setDatabase(Integer.parseInt(option(uri, "db", "0")));
        String password = option(uri, "sentinel_password", null);
        /* By name: the oldest version does not have it. */
        if (password != null)
            SentinelServersConfig.class.getMethod("setSentinelPassword", String.class)
                .invoke(servers, password);
        identify(servers, uri);
        limit(servers);
    }

    private static void useOneServer(Config config, URI uri, String host) {
        String database = uri.getPath().isEmpty() ? "0" : uri.getPath().substring(1);
        identify(config.useSingleServer(), uri);
        config.useSingleServer().setAddress(host).setDatabase(Integer.parseInt(database))
            .setConnectionMinimumIdleSize(1).setConnectionPoolSize(16).setTimeout(30000);
    }

    /* The URL is holdfast's; but whom to trust is told to Java itself. */
    private static void use(Config config, String url) throws Exception {
        URI uri = URI.create(url);
        String[] scheme = uri.getScheme().split("\\+");
        String[] hosts = uri.getAuthority().replaceFirst(".*@", "").split(",");
        for (int i = 0; i < hosts.length; i++)
            hosts[i] = scheme[0] + "://" + hosts[i];
        if (scheme.length == 1)
            useOneServer(config, uri, hosts[0]);
        else if (scheme[1].equals("sentinel"))
            useSentinels(config, uri, hosts);
        else
            limit(config.useClusterServers().addNodeAddress(hosts));
    }

    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(arguments[1]));
        config.setThreads(4).setNettyThreads(4);
        use(config, arguments[0]);
        client = Redisson.create(config);
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader orders =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answer("main", "ready");
        for (String line; (line = orders.readLine()) != null;) {
            String[] parts = line.split(" ", 2);
            if (parts[0].equals("parked")) {
                answer(parts[0], isParked(parts[1]) ? "yes" : "no");
                continue;
            }
            threads.computeIfAbsent(parts[0], name -> Executors.newSingleThreadExecutor(
                task -> new Thread(task, name)))
                .execute(() -> work(parts[0], parts[1].split(" ")));
        }
        /* Whoever started us is gone, or wants us to be: locks go by their leases. */
        Runtime.getRuntime().halt(0);
    }
}
