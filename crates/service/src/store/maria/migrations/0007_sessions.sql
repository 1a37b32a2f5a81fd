-- Sessions, for their owners to see. The tokens of log-ins before this step are in none.
CREATE TABLE IF NOT EXISTS sessions (
  id         BINARY(16) PRIMARY KEY,
  user_id    BIGINT NOT NULL,
  issued_at  BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  device     VARCHAR(200) NOT NULL,
  KEY sessions_by_user (user_id, issued_at),
  KEY sessions_by_expiry (expires_at)
);
