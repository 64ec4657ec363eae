/* SPDX-License-Identifier: Apache-2.0 */
/* The side of Curator in tests of sharing: a line an order, each done by the thread that it names.
 *
 *     THREAD VERB ARGUMENT...        is answered by        THREAD ANSWER
 *
 * The same orders as ../peer.c, so that every scene can be played with the sides exchanged.
 * Usage: Peer HOST:PORT ROOT SESSION_MS */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;

public final class Peer {
    private static CuratorFramework client;
    private static String root;

    /* One object a path: Curator's locks remember in it which thread has entered how often. */
    private static final Map<String, InterProcessMutex> mutexes = new ConcurrentHashMap<>();
    private static final Map<String, InterProcessReadWriteLock> pairs = new ConcurrentHashMap<>();
    private static final Map<String, InterProcessLock> groups = new ConcurrentHashMap<>();

    private static InterProcessReadWriteLock pairOf(String path) {
        return pairs.computeIfAbsent(path, each -> new InterProcessReadWriteLock(client, each));
    }

    /* "one,two,three" */
    private static InterProcessLock several(String names) {
        List<String> paths = new ArrayList<>();
        for (String name : names.split(",")) {
            paths.add(root + "/" + name);
        }
        return new InterProcessMultiLock(client, paths);
    }

    private static InterProcessLock lockOf(String kind, String name) {
        String path = root + "/" + name;
        switch (kind) {
        case "multi":
            return groups.computeIfAbsent(name, Peer::several);
        case "mutex":
            return mutexes.computeIfAbsent(path, each -> new InterProcessMutex(client, each));
        case "read":
            return pairOf(path).readLock();
        case "write":
            return pairOf(path).writeLock();
        default:
            throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    /* Waiting -1 is for ever. */
    private static String lock(InterProcessLock lock, long waitMs) throws Exception {
        if (waitMs < 0) {
            lock.acquire();
            return "ok";
        }
        return lock.acquire(waitMs, TimeUnit.MILLISECONDS) ? "ok" : "busy";
    }

    private static String unlock(InterProcessLock lock) throws Exception {
        lock.release();
        return "ok";
    }

    /* Nothing but the lock protects the number in the file. */
    private static String count(InterProcessLock lock, Path file, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            lock.acquire();
            try {
                long number = Long.parseLong(Files.readString(file));
                Thread.yield();
                Files.writeString(file, Long.toString(number + 1));
            } finally {
                lock.release();
            }
        }
        return "ok";
    }

    /* An object is one candidacy. */
    private static final ThreadLocal<Map<String, LeaderLatch>> candidacies =
        ThreadLocal.withInitial(HashMap::new);

    /* What the listeners of this side's candidates have been told, by name. */
    private static final Map<String, List<String>> heard = new ConcurrentHashMap<>();

    private static LeaderLatch candidate(String name) {
        LeaderLatch latch = new LeaderLatch(client, root + "/" + name, "Curator:80");
        List<String> told =
            heard.computeIfAbsent(name, each -> Collections.synchronizedList(new ArrayList<>()));
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                told.add("leads");
            }

            @Override
            public void notLeader() {
                told.add("ends");
            }
        });
        return latch;
    }

    private static String campaign(String name, long waitMs) throws Exception {
        LeaderLatch latch = candidate(name);
        latch.start();
        if (waitMs >= 0 && !latch.await(waitMs, TimeUnit.MILLISECONDS)) {
            latch.close();
            return "busy";
        }
        latch.await();
        candidacies.get().put(name, latch);
        return "ok";
    }

    private static String resign(String name) throws Exception {
        candidacies.get().remove(name).close(LeaderLatch.CloseMode.NOTIFY_LEADER);
        return "ok";
    }

    private static String leaderOf(String name) throws Exception {
        try {
            String id = new LeaderLatch(client, root + "/" + name).getLeader().getId();
            return id.isEmpty() ? "none" : id;
        } catch (KeeperException.NoNodeException missing) {
            return "none";
        }
    }

    /* An observer that is no candidate: the leader's text after each change of the queue's head. */
    private static final class Observer implements CuratorCacheListener {
        private final String path;
        private final Map<String, String> queue = new TreeMap<>();
        private final List<String> leaders = new ArrayList<>();
        private String head;
        private boolean started;

        Observer(String name) {
            path = root + "/" + name;
            CuratorCache cache = CuratorCache.build(client, path);
            cache.listenable().addListener(this);
            cache.start();
        }

        /* The queue is in the order of the last ten digits. */
        private static String place(String node) {
            return node.substring(node.length() - 10) + node;
        }

        @Override
        public synchronized void event(Type type, ChildData before, ChildData after) {
            String node = (after != null ? after : before).getPath();
            if (node.equals(path)) {
                return;
            }
            if (after != null) {
                queue.put(place(node), new String(after.getData(), StandardCharsets.UTF_8));
            } else {
                queue.remove(place(node));
            }
            notifyAll();
            note();
        }

        @Override
        public synchronized void initialized() {
            started = true;
            head = "";
            note();
        }

        private void note() {
            String now = queue.isEmpty() ? null : queue.keySet().iterator().next();
            if (started && !Objects.equals(now, head)) {
                head = now;
                leaders.add(now == null ? "none" : queue.get(now));
                notifyAll();
            }
        }

        /* The cache reads each new node by itself, and may hear earlier that another one has gone. */
        synchronized String knows(int count) throws InterruptedException {
            while (queue.size() < count) {
                wait();
            }
            return "ok";
        }

        synchronized String told(int count) throws InterruptedException {
            while (leaders.size() < count) {
                wait();
            }
            return String.join(",", leaders);
        }
    }

    private static final Map<String, Observer> observers = new ConcurrentHashMap<>();

    /* How many permits there are is shared in the node that has the leases below it. */
    private static final Map<String, SharedCount> totals = new ConcurrentHashMap<>();
    private static final Map<String, InterProcessSemaphoreV2> semaphores =
        new ConcurrentHashMap<>();
    private static final ThreadLocal<Map<String, Deque<Lease>>> leases =
        ThreadLocal.withInitial(HashMap::new);

    private static SharedCount totalOf(String name) {
        return totals.computeIfAbsent(root + "/" + name + "/leases", path -> {
            SharedCount total = new SharedCount(client, path, 0);
            try {
                total.start();
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
            return total;
        });
    }

    private static InterProcessSemaphoreV2 semaphoreOf(String name) {
        return semaphores.computeIfAbsent(
            name, each -> new InterProcessSemaphoreV2(client, root + "/" + each, totalOf(each)));
    }

    private static String takePermit(String name, long waitMs) throws Exception {
        InterProcessSemaphoreV2 semaphore = semaphoreOf(name);
        Lease lease = waitMs < 0 ? semaphore.acquire()
                                 : semaphore.acquire(waitMs, TimeUnit.MILLISECONDS);
        if (lease != null) {
            leases.get().computeIfAbsent(name, each -> new ArrayDeque<>()).push(lease);
        }
        return lease != null ? "ok" : "busy";
    }

    private static String givePermit(String name) {
        semaphoreOf(name).returnLease(leases.get().get(name).pop());
        return "ok";
    }

    /* Leaves a file where everybody inside has one, and looks how many there are. */
    private static String park(String name, Path directory, int times, int most) throws Exception {
        Path mine = directory.resolve("Curator-" + Thread.currentThread().getId());
        for (int i = 0; i < times; i++) {
            Lease lease = semaphoreOf(name).acquire();
            Files.createFile(mine);
            int count = directory.toFile().list().length;
            Thread.yield();
            Files.delete(mine);
            semaphoreOf(name).returnLease(lease);
            if (count > most) {
                return "failed: too many are inside";
            }
        }
        return "ok";
    }

    private static SharedCount latchOf(String name) throws Exception {
        SharedCount latch = new SharedCount(client, root + "/" + name, 0);
        latch.start();
        return latch;
    }

    private static String setLatch(String name, int count) throws Exception {
        try (SharedCount latch = latchOf(name)) {
            boolean free = latch.getCount() <= 0;
            return free && latch.trySetCount(latch.getVersionedValue(), count) ? "ok" : "busy";
        }
    }

    private static String countDown(String name, int times) throws Exception {
        try (SharedCount latch = latchOf(name)) {
            for (int i = 0; i < times; i++) {
                VersionedValue<Integer> seen;
                do {
                    seen = latch.getVersionedValue();
                } while (!latch.trySetCount(seen, Math.max(0, seen.getValue() - 1)));
            }
            return "ok";
        }
    }

    private static String await(String name, long waitMs) throws Exception {
        try (SharedCount latch = latchOf(name)) {
            CountDownLatch open = new CountDownLatch(1);
            latch.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader reader, int count) {
                    if (count <= 0) {
                        open.countDown();
                    }
                }

                @Override
                public void stateChanged(CuratorFramework framework, ConnectionState state) {
                }
            });
            if (latch.getCount() <= 0) {
                return "ok";
            }
            if (waitMs < 0) {
                open.await();
                return "ok";
            }
            return open.await(waitMs, TimeUnit.MILLISECONDS) ? "ok" : "busy";
        }
    }

    /* What has no owner; or null: no such order. */
    private static String change(String[] word) throws Exception {
        switch (word[0]) {
        case "permits":
            totalOf(word[1]).setCount(Integer.parseInt(word[2]));
            return "ok";
        case "latch":
            return setLatch(word[1], Integer.parseInt(word[2]));
        case "leads":
            return leaderOf(word[1]);
        case "watch":
            observers.put(word[1], new Observer(word[1]));
            return "ok";
        case "seen":
            return observers.get(word[1]).told(Integer.parseInt(word[2]));
        case "knows":
            return observers.get(word[1]).knows(Integer.parseInt(word[2]));
        case "heard":
            return String.join(",", heard.get(word[1]));
        case "down":
            return countDown(word[1], word.length > 2 ? Integer.parseInt(word[2]) : 1);
        case "await":
            return await(word[1], Long.parseLong(word[2]));
        default:
            return null;
        }
    }

    private static String obey(String[] word) throws Exception {
        String changed = change(word);
        if (changed != null) {
            return changed;
        }
        if (word[0].equals("park")) {
            return park(word[1], Path.of(word[2]), Integer.parseInt(word[3]),
                        Integer.parseInt(word[4]));
        }
        if (word[1].equals("permit")) {
            return word[0].equals("lock") ? takePermit(word[2], Long.parseLong(word[3]))
                                          : givePermit(word[2]);
        }
        if (word[1].equals("leader")) {
            return word[0].equals("lock") ? campaign(word[2], Long.parseLong(word[3]))
                                          : resign(word[2]);
        }
        InterProcessLock lock = lockOf(word[1], word[2]);
        switch (word[0]) {
        case "lock":
            return lock(lock, Long.parseLong(word[3]));
        case "unlock":
            return unlock(lock);
        case "count":
            return count(lock, Path.of(word[3]), Integer.parseInt(word[4]));
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

    public static void main(String[] arguments) throws Exception {
        root = arguments[1];
        client = CuratorFrameworkFactory.newClient(arguments[0], Integer.parseInt(arguments[2]),
                                                   60000, new RetryNTimes(3, 100));
        client.start();
        client.blockUntilConnected();
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader orders =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answer("main", "ready");
        for (String line; (line = orders.readLine()) != null;) {
            String[] parts = line.split(" ", 2);
            threads.computeIfAbsent(parts[0], name -> Executors.newSingleThreadExecutor())
                .execute(() -> work(parts[0], parts[1].split(" ")));
        }
        /* Whoever started us is gone, or wants us to be: locks go with the session. */
        Runtime.getRuntime().halt(0);
    }
}
