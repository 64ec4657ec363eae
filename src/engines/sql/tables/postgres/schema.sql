-- The three tables. Times are microseconds since 1970 by the database's clock. An owner is 16 bytes
-- of its client's and 8 of its claim's number.
--
-- One row a name, which stays: the guard of all changes, the last token, and a mutex's owner.
-- "value": a semaphore's permits in all, a counter's value, a latch's count.
CREATE TABLE IF NOT EXISTS hf_lock (
  name bytea NOT NULL PRIMARY KEY,
  kind smallint NOT NULL DEFAULT 0,
  waiting smallint NOT NULL DEFAULT 0,
  fixed smallint NOT NULL DEFAULT 0,
  value bigint NOT NULL DEFAULT 0,
  token bigint NOT NULL DEFAULT 0,
  since_us bigint NOT NULL DEFAULT 0,
  expires_us bigint NOT NULL DEFAULT 0,
  owner bytea,
  info bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- Readers, writers, permits; receipts of counters.
CREATE TABLE IF NOT EXISTS hf_hold (
  name bytea NOT NULL,
  owner bytea NOT NULL,
  mode smallint NOT NULL,
  fixed smallint NOT NULL,
  permits bigint NOT NULL,
  token bigint NOT NULL,
  since_us bigint NOT NULL,
  expires_us bigint NOT NULL,
  info bytea,
  PRIMARY KEY (name, owner)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- The queues, in the order of "seq".
CREATE TABLE IF NOT EXISTS hf_wait (
  seq bigserial PRIMARY KEY,
  name bytea NOT NULL,
  owner bytea NOT NULL,
  mode smallint NOT NULL,
  fixed smallint NOT NULL,
  permits bigint NOT NULL,
  lease_us bigint NOT NULL,
  since_us bigint NOT NULL,
  expires_us bigint NOT NULL,
  info bytea,
  UNIQUE (name, owner)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
