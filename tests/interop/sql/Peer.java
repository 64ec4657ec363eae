// SPDX-License-Identifier: Apache-2.0
// Counts with ShedLock's lock in a database: Peer URL USER PASSWORD NAME FILE ROUNDS.
// With 0 rounds, is it free? Exit code 0 or 75. With "hold" for them: takes the lock, says so, and
// gives it back when a line comes.
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

public class Peer {
    private static final int BUSY = 75;
    private static LockProvider provider;
    private static String name;

    private static Optional<SimpleLock> take() {
        return provider.lock(new LockConfiguration(Instant.now(), name, Duration.ofSeconds(60), Duration.ZERO));
    }

    private static void count(Path path, int rounds) throws Exception {
        for (int i = 0; i < rounds; i++) {
            Optional<SimpleLock> lock = take();
            while (lock.isEmpty()) {
                Thread.sleep(ThreadLocalRandom.current().nextInt(1, 20));
                lock = take();
            }
            int number = Integer.parseInt(Files.readString(path).trim());
            Thread.sleep(1); // long enough for another holder, if there were one
            Files.writeString(path, (number + 1) + "\n");
            lock.get().unlock();
        }
    }

    public static void main(String[] words) throws Exception {
        provider = new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
            .withJdbcTemplate(new JdbcTemplate(new SingleConnectionDataSource(words[0], words[1], words[2], true)))
            .usingDbTime()
            .build());
        name = words[3];
        boolean hold = words[5].equals("hold");
        if (!hold && !words[5].equals("0")) {
            count(Path.of(words[4]), Integer.parseInt(words[5]));
            return;
        }
        Optional<SimpleLock> lock = take();
        if (lock.isEmpty()) {
            System.exit(BUSY);
        }
        if (hold) {
            System.out.println("held");
            System.in.read();
        }
        lock.get().unlock();
    }
}
