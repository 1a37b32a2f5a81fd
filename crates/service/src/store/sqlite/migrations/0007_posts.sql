-- Second-hand goods: their categories, the towns in which they are offered, and the posts.
CREATE TABLE post_categories (
  id           INTEGER PRIMARY KEY,   -- also the order in which they are shown
  slug         TEXT NOT NULL UNIQUE CHECK (length(slug) BETWEEN 1 AND 40),
  name         TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 40),   -- in Korean
  name_english TEXT NOT NULL        CHECK (length(name_english) BETWEEN 1 AND 40)
) STRICT;

INSERT INTO post_categories (id, slug, name, name_english) VALUES
  (1, 'digital', '디지털기기', 'Digital devices'),
  (2, 'appliances', '생활가전', 'Home appliances'),
  (3, 'furniture', '가구/인테리어', 'Furniture and interior'),
  (4, 'kids', '유아동', 'Children'),
  (5, 'clothing', '의류', 'Clothing'),
  (6, 'beauty', '뷰티/미용', 'Beauty'),
  (7, 'sports', '스포츠/레저', 'Sports and leisure'),
  (8, 'hobbies', '취미/게임/음반', 'Hobbies, games, music'),
  (9, 'books', '도서', 'Books'),
  (10, 'plants', '식물', 'Plants'),
  (11, 'pets', '반려동물용품', 'Pet supplies'),
  (12, 'etc', '기타 중고물품', 'Other goods');

-- Names of 읍, 면 and 동 as people wrote them first: there is no list of all of them that stays right.
CREATE TABLE towns (
  id      INTEGER PRIMARY KEY,
  city_id INTEGER NOT NULL REFERENCES regions (id),
  name    TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 40),   -- in normal form C
  UNIQUE (city_id, name)
) STRICT;

CREATE TABLE posts (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused; the newest has the highest
  -- Null once the account is gone: the post stays. For a file that is changed by hand without foreign keys,
  -- readers take an author that is not there for none.
  author_id     INTEGER REFERENCES users (id) ON DELETE SET NULL,
  category_id   INTEGER NOT NULL REFERENCES post_categories (id),
  state_id      INTEGER NOT NULL REFERENCES regions (id),
  city_id       INTEGER NOT NULL REFERENCES regions (id),
  town_id       INTEGER NOT NULL REFERENCES towns (id),
  price         INTEGER NOT NULL CHECK (price BETWEEN 0 AND 1000000000000),   -- won
  stock         INTEGER NOT NULL CHECK (stock BETWEEN 0 AND 1000000),
  status        INTEGER NOT NULL CHECK (status BETWEEN 0 AND 2),   -- 0 selling, 1 reserved, 2 sold
  removed       INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1)),   -- 1: gone for everybody
  created_at_ms INTEGER NOT NULL,   -- UTC, milliseconds since 1970, as is the next
  updated_at_ms INTEGER NOT NULL,
  title         TEXT    NOT NULL CHECK (length(title) BETWEEN 1 AND 100),
  item_name     TEXT    NOT NULL CHECK (length(item_name) BETWEEN 1 AND 100),
  content       TEXT    NOT NULL CHECK (length(content) BETWEEN 1 AND 10000)   -- last: lists do not read it
) STRICT;

-- One index for each level of area and each order; the row's id is the last column of each. A listing of
-- all categories merges one search for each of them: indexes without the category would be eight more to write.
-- `removed` is a column of them and not their condition, so that a search reads the index alone: a partial index
-- does not hold the column that its condition is about.
CREATE INDEX posts_newest          ON posts (category_id, removed);
CREATE INDEX posts_newest_by_state ON posts (state_id, category_id, removed);
CREATE INDEX posts_newest_by_city  ON posts (city_id, category_id, removed);
CREATE INDEX posts_newest_by_town  ON posts (town_id, category_id, removed);
CREATE INDEX posts_price           ON posts (category_id, removed, price);
CREATE INDEX posts_price_by_state  ON posts (state_id, category_id, removed, price);
CREATE INDEX posts_price_by_city   ON posts (city_id, category_id, removed, price);
CREATE INDEX posts_price_by_town   ON posts (town_id, category_id, removed, price);

-- Finds the posts of an account that goes.
CREATE INDEX posts_by_author ON posts (author_id);
