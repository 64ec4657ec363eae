-- The three tables. Times are microseconds since 1970 by the database's clock. An owner is 16 bytes
-- of its client's and 8 of its claim's number.
--
-- One row a name, which stays: the guard of all changes, the last token, and a mutex's owner.
-- "value": a semaphore's permits in all, a counter's value, a latch's count.
CREATE TABLE IF NOT EXISTS hf_lock (
  name VARBINARY(1024) NOT NULL PRIMARY KEY,
  kind SMALLINT NOT NULL DEFAULT 0,
  waiting SMALLINT NOT NULL DEFAULT 0,
  fixed SMALLINT NOT NULL DEFAULT 0,
  value BIGINT NOT NULL DEFAULT 0,
  token BIGINT NOT NULL DEFAULT 0,
  since_us BIGINT NOT NULL DEFAULT 0,
  expires_us BIGINT NOT NULL DEFAULT 0,
  owner VARBINARY(24),
  info VARBINARY(400)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
-- Readers, writers, permits; receipts of counters.
CREATE TABLE IF NOT EXISTS hf_hold (
  name VARBINARY(1024) NOT NULL,
  owner VARBINARY(24) NOT NULL,
  mode SMALLINT NOT NULL,
  fixed SMALLINT NOT NULL,
  permits BIGINT NOT NULL,
  token BIGINT NOT NULL,
  since_us BIGINT NOT NULL,
  expires_us BIGINT NOT NULL,
  info VARBINARY(400),
  PRIMARY KEY (name, owner)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
-- The queues, in the order of "seq".
CREATE TABLE IF NOT EXISTS hf_wait (
  seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARBINARY(1024) NOT NULL,
  owner VARBINARY(24) NOT NULL,
  mode SMALLINT NOT NULL,
  fixed SMALLINT NOT NULL,
  permits BIGINT NOT NULL,
  lease_us BIGINT NOT NULL,
  since_us BIGINT NOT NULL,
  expires_us BIGINT NOT NULL,
  info VARBINARY(400),
  UNIQUE (name, owner)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
