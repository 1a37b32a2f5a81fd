-- Likes that are acknowledged and not in `article_likes` yet, one row for each batch: how each pair of article
-- and user is after it. Whoever opens the store applies them in order before it looks at likes or counts, and
-- a row goes when all of it is applied. `articles/likes/record.rs` says how a row is written.
CREATE TABLE like_log (
  seq   INTEGER PRIMARY KEY,
  likes BLOB    NOT NULL
) STRICT;
