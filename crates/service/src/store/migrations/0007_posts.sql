-- Second-hand goods.
SELECT 1;
