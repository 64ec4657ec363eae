-- A place behind a living owner, in one statement. No row: the name is free or unused, or another
-- kind's; then mutex_queue decides. The row of hf_lock is locked before anything is looked at, and
-- "l" is its newest version. Other tables are seen as they were when the statement began, so
-- nothing here may depend on the waiters. A place does not wait for the disk: what follows from it
-- is logged behind it, and without it the waiter asks again.
WITH l AS MATERIALIZED (SELECT * FROM hf_lock WHERE name = :name FOR UPDATE),
held AS MATERIALIZED (
  SELECT token, waiting, expires_us - @now@ AS left_us FROM l
  WHERE kind = :kind AND owner <> :owner AND expires_us > @now@),
placed AS (
  INSERT INTO hf_wait (name, owner, mode, fixed, permits, lease_us, since_us, expires_us, info)
  SELECT :name, :owner, :mode, :fixed, 1, :lease_us, @now@, @now@ + :place_us, :info
  -- mutant: place-hurries-all-that-follows
  FROM held WHERE :enqueue = 1 AND set_config('synchronous_commit', 'off', true) = 'off'
  ON CONFLICT (name, owner) DO UPDATE SET expires_us = excluded.expires_us
  RETURNING seq),
-- mutant: place-without-its-flag
flagged AS (UPDATE hf_lock SET waiting = 1 FROM placed, held WHERE name = :name AND held.waiting = 0)
SELECT 0, held.token, held.left_us,
  1 + (SELECT count(*) FROM hf_wait w WHERE w.name = :name AND w.seq < placed.seq)
FROM held LEFT JOIN placed ON true;
