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
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryNTimes;

public final class Peer {
    private static CuratorFramework client;
    private static String root;

    /* One object a path: Curator's locks remember in it which thread has entered how often. */
    private static final Map<String, InterProcessMutex> mutexes = new ConcurrentHashMap<>();
    private static final Map<String, InterProcessReadWriteLock> pairs = new ConcurrentHashMap<>();

    private static InterProcessReadWriteLock pairOf(String path) {
        return pairs.computeIfAbsent(path, each -> new InterProcessReadWriteLock(client, each));
    }

    private static InterProcessMutex lockOf(String kind, String name) {
        String path = root + "/" + name;
        switch (kind) {
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
    private static String lock(InterProcessMutex lock, long waitMs) throws Exception {
        if (waitMs < 0) {
            lock.acquire();
            return "ok";
        }
        return lock.acquire(waitMs, TimeUnit.MILLISECONDS) ? "ok" : "busy";
    }

    private static String unlock(InterProcessMutex lock) throws Exception {
        lock.release();
        return "ok";
    }

    /* Nothing but the lock protects the number in the file. */
    private static String count(InterProcessMutex lock, Path file, int times) throws Exception {
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

    private static String obey(String[] word) throws Exception {
        InterProcessMutex lock = lockOf(word[1], word[2]);
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
