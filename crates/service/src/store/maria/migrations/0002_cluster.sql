-- What all nodes agree on. The tables of the outbox are made beside this one.
CREATE TABLE IF NOT EXISTS madang_cluster (
  only_row TINYINT PRIMARY KEY CHECK (only_row = 1),
  delay_ms BIGINT NOT NULL
);
