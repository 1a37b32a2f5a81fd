-- Search in texts: for each pair of neighbouring characters the items that have it.
CREATE TABLE IF NOT EXISTS search_pairs (
  kind    BIGINT NOT NULL,
  segment BIGINT NOT NULL,
  pair    BIGINT NOT NULL,
  ids     MEDIUMBLOB NOT NULL,
  PRIMARY KEY (kind, segment, pair)
);

-- Items whose text has changed and is not in the index yet.
CREATE TABLE IF NOT EXISTS search_changes (
  number  BIGINT AUTO_INCREMENT PRIMARY KEY,
  kind    BIGINT NOT NULL,
  item_id BIGINT NOT NULL
);

-- Run twice it notes them twice, which does no harm.
INSERT INTO search_changes (kind, item_id) SELECT 0, id FROM posts UNION ALL SELECT 1, id FROM articles;
