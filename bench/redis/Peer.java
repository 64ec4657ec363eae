/* SPDX-License-Identifier: Apache-2.0 */
/* Redisson, measured: a line an order, a line of figures an answer.
 *
 *     pairs THREADS MS     lock and unlock, each thread its own name
 *     handover MS          one lock between two clients of this process */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Peer {
    private static final int SAMPLES = 1 << 18;
    private static final int RUNS_MIN = 100;
    private static final long SETTLE_US = 300;

    private final long[] samples = new long[SAMPLES];
    private final AtomicLong count = new AtomicLong();

    private static RedissonClient open(String address) {
        Config config = new Config();
        config.useSingleServer().setAddress(address).setTimeout(30000);
        return Redisson.create(config);
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

    private static Thread start(Runnable body) {
        Thread thread = new Thread(body);
        thread.start();
        return thread;
    }

    private void pairs(RedissonClient client, int threads, long ms) throws Exception {
        CountDownLatch done = new CountDownLatch(threads);
        long began = System.nanoTime();
        long end = began + TimeUnit.MILLISECONDS.toNanos(ms);
        for (int i = 0; i < threads; i++) {
            RLock lock = client.getLock("lock:java:" + i);
            start(() -> {
                for (long before = System.nanoTime(); before < end;) {
                    lock.lock();
                    lock.unlock();
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
    private final Semaphore[] turns = { new Semaphore(0), new Semaphore(0) };
    private final boolean[] waits = new boolean[2];
    private volatile boolean stop;
    private volatile long releasedAt;

    private void alternate(RLock lock, int index, long end) throws Exception {
        if (index == 1) {
            turns[1].acquire();
        }
        while (!stop) {
            synchronized (waits) {
                waits[index] = true;
            }
            lock.lock();
            long now = System.nanoTime();
            if (releasedAt != 0) {
                record(now - releasedAt);
            }
            synchronized (waits) {
                waits[index] = false;
            }
            stop |= now > end && count.get() >= RUNS_MIN;
            turns[1 - index].release();
            for (boolean waiting = false; !waiting && !stop; TimeUnit.MICROSECONDS.sleep(50)) {
                synchronized (waits) {
                    waiting = waits[1 - index];
                }
            }
            TimeUnit.MICROSECONDS.sleep(SETTLE_US);
            releasedAt = System.nanoTime();
            lock.unlock();
            turns[index].acquire();
        }
        turns[1 - index].release(2);
    }

    private void handover(RedissonClient one, RedissonClient other, long ms) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        Thread[] threads = new Thread[2];
        for (int i = 0; i < 2; i++) {
            int index = i;
            RLock lock = (i == 0 ? one : other).getLock("lock:java:handover");
            threads[i] = start(() -> {
                try {
                    alternate(lock, index, end);
                } catch (Exception failure) {
                    throw new IllegalStateException(failure);
                }
            });
        }
        threads[0].join();
        threads[1].join();
        print(TimeUnit.MILLISECONDS.toNanos(ms));
    }

    public static void main(String[] arguments) throws Exception {
        RedissonClient one = open(arguments[0]);
        RedissonClient other = open(arguments[0]);
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
