-- Search in texts: for each pair of neighbouring characters the items that have it.
CREATE TABLE search_pairs (
  kind    INTEGER NOT NULL,   -- 0 posts, 1 articles
  segment INTEGER NOT NULL,   -- id / 16384
  pair    INTEGER NOT NULL,   -- first character * 2^21 + second
  ids     BLOB    NOT NULL,   -- id % 16384, two bytes each, the lower first; in no order, some twice, some no longer so
  PRIMARY KEY (kind, segment, pair)
) STRICT, WITHOUT ROWID;

-- Items whose text has changed and is not in the index yet. A change while one is being indexed is a row of its own.
CREATE TABLE search_changes (
  number  INTEGER PRIMARY KEY AUTOINCREMENT,
  kind    INTEGER NOT NULL,
  item_id INTEGER NOT NULL
) STRICT;

INSERT INTO search_changes (kind, item_id) SELECT 0, id FROM posts UNION ALL SELECT 1, id FROM articles;
