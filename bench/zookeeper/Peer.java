/* SPDX-License-Identifier: Apache-2.0 */
/* Curator, measured: a line an order, a line of figures an answer.
 *
 *     pairs THREADS MS     lock and unlock, each thread its own path
 *     handover MS          one lock between two clients of this process */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public final class Peer {
    private static final int SAMPLES = 1 << 18;
    private static final int SESSION_MS = 30000;
    private static final long SETTLE_US = 300;

    private final long[] samples = new long[SAMPLES];
    private final AtomicLong count = new AtomicLong();

    private static CuratorFramework open(String address) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            address, SESSION_MS, SESSION_MS, new RetryOneTime(100));
        client.start();
        return client;
    }

    private void record(long ns) {
        long at = count.getAndIncrement();
        if (at < SAMPLES) {
            samples[(int) at] = ns;
        }
    }

    private void print(long ns) {
        int length = (int) Math.min(count.get(), SAMPLES);
        Arrays.sort(samples, 0, length);
        System.out.println("p50=" + samples[length / 2] + " p99=" + samples[length * 99 / 100]
            + " pairs=" + count.get() + " ns=" + ns);
        System.out.flush();
    }

    private interface Body {
        void run() throws Exception;
    }

    private static Thread start(Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception failure) {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        thread.start();
        return thread;
    }

    private void pairs(CuratorFramework client, int threads, long ms) throws Exception {
        CountDownLatch done = new CountDownLatch(threads);
        long began = System.nanoTime();
        long end = began + TimeUnit.MILLISECONDS.toNanos(ms);
        for (int i = 0; i < threads; i++) {
            InterProcessMutex lock = new InterProcessMutex(client, "/bench/lock:java:" + i);
            start(() -> {
                for (long before = System.nanoTime(); before < end;) {
                    lock.acquire();
                    lock.release();
                    long after = System.nanoTime();
                    record(after - before);
                    before = after;
                }
                done.countDown();
            });
        }
        done.await();
        print(System.nanoTime() - began);
    }

    /* What the two sides of a hand-over share. */
    private final boolean[] waits = new boolean[2];
    private volatile boolean stop;
    private volatile long releasedAt;
    private volatile int last;

    private void setWaits(int index, boolean waiting) {
        synchronized (waits) {
            waits[index] = waiting;
        }
    }

    private boolean doesWait(int index) {
        synchronized (waits) {
            return waits[index];
        }
    }

    private void alternate(InterProcessMutex lock, int index, long end) throws Exception {
        while (!stop) {
            setWaits(index, true);
            lock.acquire();
            long now = System.nanoTime();
            setWaits(index, false);
            if (releasedAt != 0 && last != index) {
                record(now - releasedAt);
            }
            last = index;
            stop |= now > end;
            while (!stop && !doesWait(1 - index)) {
                TimeUnit.MICROSECONDS.sleep(50);
            }
            TimeUnit.MICROSECONDS.sleep(SETTLE_US);
            releasedAt = System.nanoTime();
            lock.release();
        }
    }

    private void handover(CuratorFramework one, CuratorFramework other, long ms) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        Thread[] threads = new Thread[2];
        for (int i = 0; i < 2; i++) {
            int index = i;
            InterProcessMutex lock =
                new InterProcessMutex(i == 0 ? one : other, "/bench/lock:java:handover");
            threads[i] = start(() -> alternate(lock, index, end));
        }
        threads[0].join();
        threads[1].join();
        print(TimeUnit.MILLISECONDS.toNanos(ms));
    }

    public static void main(String[] arguments) throws Exception {
        CuratorFramework one = open(arguments[0]);
        CuratorFramework other = open(arguments[0]);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = orders.readLine()) != null;) {
            String[] word = line.split(" ");
            if (word[0].equals("pairs")) {
                new Peer().pairs(one, Integer.parseInt(word[1]), Long.parseLong(word[2]));
            } else {
                new Peer().handover(one, other, Long.parseLong(word[1]));
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
