-- Role (0: the object, 1: a holder, 2: a waiter), name, kind, mode, permits, value, token, owner,
-- info, microseconds since it began and until it ends, rank. One moment: a single snapshot.
-- A name whose row is kept for its last token alone is left out: there may be very many.
SELECT r.role, r.name, l.kind, r.mode, r.permits, l.value, r.token, r.owner, r.info,
  @now@ - r.since_us, r.expires_us - @now@, r.rank, l.taken
FROM (
  SELECT 0 AS role, l.name, 0::smallint AS mode, 0::bigint AS permits, l.token,
    NULL::bytea AS owner, NULL::bytea AS info, 0::bigint AS since_us, 0::bigint AS expires_us,
    0::bigint AS rank
  FROM hf_lock l WHERE l.kind > 3 OR (l.owner IS NOT NULL AND l.expires_us > @now@)
    OR l.name IN (SELECT h.name FROM hf_hold h WHERE h.expires_us > @now@ AND h.mode <> 6)
    OR l.name IN (SELECT w.name FROM hf_wait w WHERE w.expires_us > @now@)
  UNION ALL
  SELECT 1, l.name, (l.kind - 1)::smallint, 1, l.token, l.owner, l.info, l.since_us,
    l.expires_us, 0
  FROM hf_lock l WHERE l.kind IN (1, 2) AND l.owner IS NOT NULL AND l.expires_us > @now@
  UNION ALL
  SELECT 1, h.name, h.mode, h.permits, h.token, h.owner, h.info, h.since_us, h.expires_us, 0
  FROM hf_hold h WHERE h.expires_us > @now@ AND h.mode <> 6
  UNION ALL
  SELECT 2, w.name, w.mode, w.permits, 0, w.owner, w.info, w.since_us, w.expires_us,
    row_number() OVER (PARTITION BY w.name ORDER BY w.seq)
  FROM hf_wait w WHERE w.expires_us > @now@
) r
JOIN (SELECT l.name, l.kind, l.value, coalesce((SELECT sum(t.permits) FROM hf_hold t
    WHERE t.name = l.name AND t.expires_us > @now@ AND t.mode = 5), 0)::bigint AS taken
  FROM hf_lock l WHERE true) l ON l.name = r.name
ORDER BY r.name, r.role, r.rank, r.since_us;
