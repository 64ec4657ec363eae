-- What is kept of a name that is free. The row is locked before anything is looked at, so no other
-- owner comes in between. A token of the last second stays, and one that is ahead of the clock: a
-- statement that has read the clock before, and waits, may insert the row anew (lock.c).
-- The receipt of a counter (mode 6) stays, and keeps no name in use.
SELECT 1 FROM hf_lock WHERE name = :name FOR UPDATE;
DELETE FROM hf_hold WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_wait WHERE name = :name AND expires_us <= @now@;
DELETE FROM hf_lock
WHERE name = :name AND (kind IN (0, 1, 2, 3) OR (kind = 7 AND value <= @now@))
  AND (owner IS NULL OR expires_us <= @now@)
  AND token < @now@ - 1000000
  AND NOT EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)
  AND NOT EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name);
-- How many rows say that it is in use, and for how many microseconds a free one stays. At least one:
-- what comes free between these statements was not deleted, and is asked for again.
SELECT (SELECT COUNT(*) FROM hf_lock l
    WHERE l.name = :name AND ((l.kind > 3 AND NOT (l.kind = 7 AND l.value <= @now@)) OR (l.owner IS NOT NULL AND l.expires_us > @now@)
      OR EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = :name AND h.mode <> 6)
      OR EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = :name))),
  COALESCE((SELECT greatest(token + 1000000 - @now@, 1) FROM hf_lock WHERE name = :name), 0);
