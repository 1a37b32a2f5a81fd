-- Which database this is, for a replica to be recognised; and what tokens are signed with, as a hash.
ALTER TABLE madang_cluster ADD COLUMN IF NOT EXISTS identity BIGINT NOT NULL DEFAULT 0;
ALTER TABLE madang_cluster ADD COLUMN IF NOT EXISTS token_key BINARY(32) NULL;
