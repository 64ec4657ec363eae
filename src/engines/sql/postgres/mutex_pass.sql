-- A mutex goes from its owner to the first waiter, in one statement. No row: it is not this
-- owner's, or no waiter is seen; then mutex_hand_over decides. Waiters are seen as they were when
-- the statement began: one that has left since is skipped, because its row cannot be locked, and a
-- newer one has a larger "seq". So the head is right, and whether others are left is not known:
-- "waiting" stays 1.
WITH mine AS MATERIALIZED (
  SELECT name FROM hf_lock WHERE name = :name AND owner = :owner AND expires_us > @now@ FOR UPDATE),
head AS MATERIALIZED (
  SELECT w.* FROM mine, LATERAL (
    SELECT * FROM hf_wait q WHERE q.name = mine.name AND q.expires_us > @now@
    -- mutant: head-that-has-left
    ORDER BY q.seq LIMIT 1 FOR UPDATE) w),
given AS (
  UPDATE hf_lock l SET owner = head.owner, kind = head.mode + 1, fixed = head.fixed,
    info = head.info, token = greatest(l.token + 1, @now@), since_us = @now@,
    expires_us = @now@ + least(head.lease_us, :hand_us)
  FROM head WHERE l.name = :name AND l.owner = :owner AND head.mode IN (0, 1)
  RETURNING head.seq, l.owner),
gone AS (DELETE FROM hf_wait w USING given WHERE w.seq = given.seq)
SELECT 1, pg_notify('hf_' || encode(substr(owner, 1, 16), 'hex'), encode(substr(owner, 17), 'hex'))
FROM given;
