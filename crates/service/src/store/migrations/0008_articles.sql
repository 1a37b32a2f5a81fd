-- Articles, comments, likes.
SELECT 1;
