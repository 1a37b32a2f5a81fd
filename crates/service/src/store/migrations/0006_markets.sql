-- Traditional markets.
SELECT 1;
