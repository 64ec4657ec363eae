-- Names that nothing is left of, and that no owner has had for a week. The next token of such a
-- name is larger all the same: it comes from the clock. A token that is ahead of the clock stays.
DELETE FROM hf_hold WHERE expires_us <= @now@ - 3600000000;
DELETE FROM hf_wait WHERE expires_us <= @now@ - 3600000000;
-- answer
SELECT COUNT(*) FROM hf_lock
WHERE (kind IN (0, 1, 2, 3) OR (kind = 7 AND value <= @now@))
  AND (owner IS NULL OR expires_us <= @now@)
  AND since_us < @now@ - 604800000000 AND token <= @now@
  AND NOT EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = hf_lock.name)
  AND NOT EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = hf_lock.name);
DELETE FROM hf_lock
WHERE (kind IN (0, 1, 2, 3) OR (kind = 7 AND value <= @now@))
  AND (owner IS NULL OR expires_us <= @now@)
  AND since_us < @now@ - 604800000000 AND token <= @now@
  AND NOT EXISTS (SELECT 1 FROM hf_hold h WHERE h.name = hf_lock.name)
  AND NOT EXISTS (SELECT 1 FROM hf_wait w WHERE w.name = hf_lock.name);
