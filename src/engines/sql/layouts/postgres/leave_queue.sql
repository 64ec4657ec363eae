-- These tables have no queue.
SELECT 1;
