-- What the embedded store has come to in its ten versions (`sqlite/migrations`, which say why), as MariaDB has it.
-- Each statement can be run again: a step that was broken off is begun anew. Text is compared byte by byte.
--
-- No triggers: an account of a managed server may not make any. What they do in a file, the statements of the program
-- do here. No references to users, tracks and articles either: what hangs on them goes in small transactions.

CREATE TABLE IF NOT EXISTS regions (
  id          BIGINT PRIMARY KEY,
  province_id BIGINT NULL,
  name        VARCHAR(100) NOT NULL,
  name_en     VARCHAR(100) NOT NULL,
  FOREIGN KEY (province_id) REFERENCES regions (id)
);

CREATE TABLE IF NOT EXISTS region_names (
  region_id BIGINT NOT NULL,
  name      VARCHAR(100) NOT NULL,
  PRIMARY KEY (region_id, name),
  FOREIGN KEY (region_id) REFERENCES regions (id)
);

-- A nickname has no letters with case but those of ASCII, and no others that this collation takes for one.
CREATE TABLE IF NOT EXISTS users (
  id            BIGINT AUTO_INCREMENT PRIMARY KEY,
  nickname      VARCHAR(64) COLLATE utf8mb4_general_nopad_ci NOT NULL UNIQUE CHECK (CHAR_LENGTH(nickname) >= 2),
  password_hash TEXT NOT NULL,
  region_id     BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  FOREIGN KEY (region_id) REFERENCES regions (id)
);

CREATE TABLE IF NOT EXISTS revoked_tokens (
  id         BINARY(16) PRIMARY KEY,
  user_id    BIGINT NOT NULL,
  issued_at  BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  KEY revoked_tokens_by_user (user_id, issued_at),
  KEY revoked_tokens_by_expiry (expires_at)
);

CREATE TABLE IF NOT EXISTS revoked_users (
  user_id    BIGINT PRIMARY KEY,
  until      BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS locations (
  id           BIGINT PRIMARY KEY,
  name         VARCHAR(100) NOT NULL UNIQUE,
  name_english VARCHAR(100) NOT NULL,
  lat          DOUBLE NOT NULL CHECK (lat BETWEEN -90 AND 90),
  lon          DOUBLE NOT NULL CHECK (lon BETWEEN -180 AND 180)
);

CREATE TABLE IF NOT EXISTS schedules (
  id            BIGINT AUTO_INCREMENT PRIMARY KEY,
  user_id       BIGINT NOT NULL,
  location_id   BIGINT NOT NULL,
  title         VARCHAR(100) NOT NULL CHECK (title <> ''),
  start_at_ms   BIGINT NOT NULL,
  end_at_ms     BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  CHECK (end_at_ms > start_at_ms),
  KEY schedules_by_user (user_id, start_at_ms),
  FOREIGN KEY (location_id) REFERENCES locations (id)
);

CREATE TABLE IF NOT EXISTS schedule_counts (
  user_id BIGINT PRIMARY KEY,
  n       BIGINT NOT NULL CHECK (n >= 0)
);

CREATE TABLE IF NOT EXISTS tracks (
  id            BIGINT AUTO_INCREMENT PRIMARY KEY,
  name          VARCHAR(200) NOT NULL CHECK (name <> ''),
  rate          DOUBLE NOT NULL DEFAULT 0 CHECK (rate BETWEEN 0 AND 5),
  length_metres DOUBLE NOT NULL CHECK (length_metres >= 0),
  points        BIGINT NOT NULL CHECK (points >= 2),
  start_lat     DOUBLE NOT NULL CHECK (start_lat BETWEEN -90 AND 90),
  start_lon     DOUBLE NOT NULL CHECK (start_lon BETWEEN -180 AND 180),
  fingerprint   BINARY(32) NOT NULL UNIQUE,
  created_at_ms BIGINT NOT NULL,
  owner_id      BIGINT NULL,
  KEY tracks_by_length (length_metres),
  KEY tracks_by_owner (owner_id)
);

CREATE TABLE IF NOT EXISTS track_paths (
  track_id BIGINT PRIMARY KEY,
  path     LONGBLOB NOT NULL
);

-- Places on a Z-order curve, worked out by the program.
CREATE TABLE IF NOT EXISTS track_starts (
  cell BIGINT NOT NULL,
  lat  DOUBLE NOT NULL,
  lon  DOUBLE NOT NULL,
  id   BIGINT NOT NULL,
  PRIMARY KEY (cell, lat, lon, id),
  KEY track_starts_by_track (id)
);

CREATE TABLE IF NOT EXISTS track_records (
  id            BIGINT AUTO_INCREMENT PRIMARY KEY,
  track_id      BIGINT NOT NULL,
  user_id       BIGINT NOT NULL,
  duration_ms   BIGINT NOT NULL CHECK (duration_ms > 0),
  ran_at_ms     BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  KEY track_records_by_track (track_id),
  KEY track_records_by_user (user_id)
);

CREATE TABLE IF NOT EXISTS track_bests (
  track_id    BIGINT NOT NULL,
  user_id     BIGINT NOT NULL,
  duration_ms BIGINT NOT NULL,
  record_id   BIGINT NOT NULL,
  PRIMARY KEY (track_id, user_id),
  KEY track_bests_by_time (track_id, duration_ms, user_id),
  KEY track_bests_by_user (user_id)
);

-- `number` rises over all users, and so over the keys of one.
CREATE TABLE IF NOT EXISTS idempotency_keys (
  user_id       BIGINT NOT NULL,
  route         VARCHAR(100) NOT NULL,
  `key`         VARCHAR(255) NOT NULL,
  number        BIGINT NOT NULL AUTO_INCREMENT UNIQUE,
  fingerprint   BINARY(32) NOT NULL,
  outcome       TEXT NOT NULL,
  expires_at_ms BIGINT NOT NULL,
  PRIMARY KEY (user_id, route, `key`),
  KEY idempotency_keys_by_number (user_id, number),
  KEY idempotency_keys_by_expiry (expires_at_ms)
);

CREATE TABLE IF NOT EXISTS markets (
  id              BIGINT AUTO_INCREMENT PRIMARY KEY,
  natural_key     VARCHAR(700) NOT NULL UNIQUE,
  name            VARCHAR(1000) NOT NULL CHECK (name <> ''),
  kind            TEXT,
  cycle           TEXT,
  road_address    TEXT,
  lot_address     TEXT,
  province_id     BIGINT NULL,
  municipality_id BIGINT NULL,
  lat             DOUBLE NULL,
  lon             DOUBLE NULL,
  stores          BIGINT NULL,
  goods           TEXT NOT NULL,
  vouchers        TEXT NOT NULL,
  homepage        TEXT,
  public_toilet   BIGINT NULL,
  parking         BIGINT NULL,
  founded_year    BIGINT NULL,
  phone           TEXT,
  facilities      BIGINT NULL,
  data_date       VARCHAR(10) NOT NULL,
  provider        TEXT NOT NULL,
  CHECK (road_address IS NOT NULL OR lot_address IS NOT NULL),
  CHECK ((lat IS NULL) = (lon IS NULL)),
  FOREIGN KEY (province_id) REFERENCES regions (id),
  FOREIGN KEY (municipality_id) REFERENCES regions (id)
);

CREATE TABLE IF NOT EXISTS market_views (
  day       BIGINT NOT NULL,
  market_id BIGINT NOT NULL,
  visitor   BINARY(16) NOT NULL,
  PRIMARY KEY (day, market_id, visitor)
);

CREATE TABLE IF NOT EXISTS market_view_counts (
  market_id BIGINT PRIMARY KEY,
  views     BIGINT NOT NULL,
  settled   BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS post_categories (
  id           BIGINT PRIMARY KEY,
  slug         VARCHAR(40) NOT NULL UNIQUE,
  name         VARCHAR(40) NOT NULL UNIQUE,
  name_english VARCHAR(40) NOT NULL
);

CREATE TABLE IF NOT EXISTS towns (
  id      BIGINT AUTO_INCREMENT PRIMARY KEY,
  city_id BIGINT NOT NULL,
  name    VARCHAR(40) NOT NULL CHECK (name <> ''),
  UNIQUE (city_id, name),
  FOREIGN KEY (city_id) REFERENCES regions (id)
);

CREATE TABLE IF NOT EXISTS posts (
  id            BIGINT AUTO_INCREMENT PRIMARY KEY,
  author_id     BIGINT NULL,
  category_id   BIGINT NOT NULL,
  state_id      BIGINT NOT NULL,
  city_id       BIGINT NOT NULL,
  town_id       BIGINT NOT NULL,
  price         BIGINT NOT NULL CHECK (price BETWEEN 0 AND 1000000000000),
  stock         BIGINT NOT NULL CHECK (stock BETWEEN 0 AND 1000000),
  status        BIGINT NOT NULL CHECK (status BETWEEN 0 AND 2),
  removed       BIGINT NOT NULL DEFAULT 0 CHECK (removed IN (0, 1)),
  created_at_ms BIGINT NOT NULL,
  updated_at_ms BIGINT NOT NULL,
  title         VARCHAR(100) NOT NULL CHECK (title <> ''),
  item_name     VARCHAR(100) NOT NULL CHECK (item_name <> ''),
  content       TEXT NOT NULL CHECK (CHAR_LENGTH(content) BETWEEN 1 AND 10000),
  KEY posts_newest (category_id, removed),
  KEY posts_newest_by_state (state_id, category_id, removed),
  KEY posts_newest_by_city (city_id, category_id, removed),
  KEY posts_newest_by_town (town_id, category_id, removed),
  KEY posts_price (category_id, removed, price),
  KEY posts_price_by_state (state_id, category_id, removed, price),
  KEY posts_price_by_city (city_id, category_id, removed, price),
  KEY posts_price_by_town (town_id, category_id, removed, price),
  KEY posts_by_author (author_id),
  FOREIGN KEY (category_id) REFERENCES post_categories (id),
  FOREIGN KEY (state_id) REFERENCES regions (id),
  FOREIGN KEY (city_id) REFERENCES regions (id),
  FOREIGN KEY (town_id) REFERENCES towns (id)
);

CREATE TABLE IF NOT EXISTS articles (
  id            BIGINT AUTO_INCREMENT PRIMARY KEY,
  author_id     BIGINT NULL,
  title         VARCHAR(100) NOT NULL CHECK (title <> ''),
  created_at_ms BIGINT NOT NULL,
  updated_at_ms BIGINT NOT NULL,
  like_count    BIGINT NOT NULL DEFAULT 0 CHECK (like_count >= 0),
  comment_count BIGINT NOT NULL DEFAULT 0 CHECK (comment_count >= 0),
  KEY articles_by_likes (like_count),
  KEY articles_by_author (author_id)
);

CREATE TABLE IF NOT EXISTS article_contents (
  article_id BIGINT PRIMARY KEY,
  content    TEXT NOT NULL CHECK (CHAR_LENGTH(content) BETWEEN 1 AND 10000)
);

CREATE TABLE IF NOT EXISTS article_comments (
  id            BIGINT AUTO_INCREMENT PRIMARY KEY,
  article_id    BIGINT NOT NULL,
  author_id     BIGINT NULL,
  content       VARCHAR(1000) NOT NULL CHECK (content <> ''),
  created_at_ms BIGINT NOT NULL,
  KEY article_comments_by_article (article_id),
  KEY article_comments_by_author (author_id)
);

CREATE TABLE IF NOT EXISTS article_likes (
  article_id BIGINT NOT NULL,
  user_id    BIGINT NOT NULL,
  PRIMARY KEY (article_id, user_id)
);

CREATE TABLE IF NOT EXISTS deleted_articles (id BIGINT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS deleted_tracks (id BIGINT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS deleted_users (id BIGINT PRIMARY KEY);
